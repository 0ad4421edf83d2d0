"""Sources of events: who reads what, and how events become rows; decisions, and the outside's side."""
