"""Jobs as Python objects, and a CREATE that is interrupted."""

from __future__ import annotations

import dataclasses
import io
import signal
import threading

import pytest

from headrace.engine.jobs import Jobs
from headrace.errors import HeadraceError, JobCancelled, JobFailed, UndefinedJob
from headrace.serving.progress import Progress
from headrace.shell import Interrupted, Shell
from tests.engine.conftest import eventually


@pytest.fixture
def filling(db):
    """Makes views that stand still until somebody lets them go on."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 2000) AS s(g)")
    session = db.session()
    session.sql("SET background_ddl = true")
    session.sql("SET backfill_rate_limit = 0")

    def create(name: str, query: str = "SELECT id, v FROM t"):
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        return db.job(name)

    return create


def go_on(db, name: str) -> None:
    db.sql(f"ALTER MATERIALIZED VIEW {name} SET BACKFILL_RATE_LIMIT = DEFAULT")


def test_a_job_from_beginning_to_end(db, filling):
    job = filling("m")
    assert job.progress() == Progress(state="paused", fraction=0.0, rows_read=0, rows_total=2000)
    assert [(each.id, each.name) for each in db.jobs()] == [(job.id, "m")]
    assert db.job(job.id).statement == job.statement == "CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t"
    with pytest.raises(TimeoutError, match='"m" is not filled after 0.01 s'):
        job.wait(0.01)
    go_on(db, "m")
    job.wait()
    done = job.progress()
    assert (done.state, done.fraction, done.rows_read, done.over) == ("done", 1.0, 2000, True)
    assert db.jobs() == []
    assert db.job("m").progress().state == "done"
    job.wait()  # what is done is done
    assert job.cancel() is False
    assert db.sql("SELECT count(*) FROM m").rows() == [(2000,)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        done.state = "running"


def test_pause_resume_cancel(db, filling):
    job = filling("m")
    job.pause()
    go_on(db, "m")
    assert job.progress().state == "paused"
    job.resume()
    job.wait(60)
    other = filling("n")
    assert other.cancel() is True
    assert other.progress().state == "cancelled"
    with pytest.raises(JobCancelled):
        other.wait()
    with pytest.raises(UndefinedJob):
        other.pause()
    with pytest.raises(HeadraceError, match="does not exist"):
        db.job("n")
    with pytest.raises(UndefinedJob, match="there is no job 1"):
        db.job(1)  # a table


def test_a_job_is_called_what_its_relations_are_called_now(db, filling):
    job = filling("m", "SELECT id FROM t UNION ALL SELECT v FROM t")
    db.sql("ALTER MATERIALIZED VIEW m RENAME TO n")
    db.sql("ALTER TABLE t RENAME TO u")
    (found,) = db.jobs()
    assert (found.id, found.name) == (job.id, "n")
    assert found.statement == db.job("n").statement == db.sql("SHOW CREATE MATERIALIZED VIEW n").rows()[0][1]
    assert {relation for relation, _, _ in db.sql(f"SHOW JOB {job.id} POSITIONS").rows()} == {"u"}
    go_on(db, "n")
    db.sql("WAIT n")
    assert db.sql("SELECT count(*) FROM n").rows() == [(4000,)]


def test_a_limit_for_what_has_just_been_filled(db, filling, monkeypatch):
    """It may end between what is looked at and the barrier at which the limit takes effect."""
    filling("m")
    change = Jobs._change

    def late(self, id, wanted, what):
        monkeypatch.undo()
        go_on(db, "m")
        db.sql("WAIT m")
        change(self, id, wanted, what)

    monkeypatch.setattr(Jobs, "_change", late)
    result = db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = 100")
    assert result.notice == 'materialized view "m" is complete: there is nothing to limit'


def test_a_pause_is_no_part_of_the_speed(db, filling):
    db.sql("ALTER SYSTEM SET barrier_interval = '50ms'")
    job = filling("m")
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = 100")
    eventually(lambda: job.progress().rows_per_second)
    job.pause()
    # A chunk that was being read lands all the same; then there is nothing to measure until it goes on.
    eventually(lambda: job.progress().rows_per_second is None)
    assert job.progress().seconds_left is None
    job.resume()
    eventually(lambda: job.progress().rows_per_second)
    db.sql("PAUSE")
    eventually(lambda: job.progress().rows_per_second is None)
    db.sql("RESUME")
    eventually(lambda: job.progress().rows_per_second)


def test_a_failed_job(db, filling):
    db.sql("INSERT INTO t VALUES (0, 1)")
    job = filling("m", "SELECT id, 10 / id AS w FROM t")
    go_on(db, "m")
    with pytest.raises(JobFailed, match="division by zero"):
        job.wait(60)
    assert job.progress().state == "failed" and "division by zero" in job.error
    db.sql("DELETE FROM t WHERE id = 0")
    job.resume()
    job.wait(60)
    assert (job.progress().state, job.error) == ("done", None)


def test_looking_is_cheap(db, filling, monkeypatch):
    """Enough for a screen that is drawn many times a second: it reads no file and runs no Spark job."""
    job = filling("m")

    def refused(*_):
        raise AssertionError("looking at a job touched the storage")

    jobs_before = len(db.engine.spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    for name in ("read", "list", "exists"):
        monkeypatch.setattr(db.engine.storage, name, refused)
    for _ in range(100):
        assert job.progress().state == "paused"
    monkeypatch.undo()
    assert len(db.engine.spark.sparkContext.statusTracker().getJobIdsForGroup(None)) == jobs_before


@pytest.fixture
def ctrl_c(db):
    """As the command line sets it: Spark's own handler would cancel the engine's jobs, too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # it wakes a thread that waits
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_cancels_the_creation_and_the_shell_goes_on(db, filling, ctrl_c):
    filling("keeps_going")
    out = io.StringIO()
    shell = Shell(db, out=out, err=io.StringIO(), interactive=True)
    shell.run("SET backfill_rate_limit = 0")

    def interrupt() -> None:
        eventually(lambda: [job for job in db.jobs() if job.name == "m"])
        ctrl_c()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(Interrupted, match='cancelled: materialized view "m" was not created'):
        shell.run("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    assert [job.name for job in db.jobs()] == ["keeps_going"]
    shell.run("SET backfill_rate_limit = DEFAULT; CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    assert db.sql("SELECT count(*) FROM m").rows() == [(2000,)]


def test_ctrl_c_stops_what_the_epoch_loop_works_on(db, ctrl_c, gate):
    db.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    loop = "SELECT count(*)::int FROM generate_series(1, 300000) a(x), generate_series(1, 300000) b(y) WHERE a.x < b.y"

    def interrupt() -> None:
        eventually(lambda: gate.epochs)
        ctrl_c()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        db.sql(f"INSERT INTO u {loop}")
    db.sql("INSERT INTO u VALUES (1)")
    assert db.sql("SELECT * FROM u").rows() == [(1,)]


def test_ctrl_c_before_the_job_is_there(db, filling, ctrl_c, gate, monkeypatch):
    """The statement is in the queue of an epoch that takes long: it must not be created behind the user's back."""
    coordinator = db.engine.coordinator
    gate.shut()
    threading.Thread(target=lambda: db.session().sql("INSERT INTO t VALUES (5000, 1)"), daemon=True).start()
    gate.wait_for(1)

    def interrupt() -> None:
        eventually(lambda: coordinator._queue)
        ctrl_c()
        gate.open()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    assert db.engine.committed.catalog.find("m") is None
