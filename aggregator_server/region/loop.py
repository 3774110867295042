"""The loop that asks the upper server, in a thread beside the service.

What it does is an idempotent step: it reads rows, fetches and computes, and writes all effects in one transaction, as
rounds do. Killed anywhere, the next step goes on to the same bytes. Only the server that moves rounds makes steps.
"""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from aggregator_server.errors import LeaseLostError, LeftRegionError, StateAwayError, StorageFullError
from aggregator_server.fleet.region import read_region
from aggregator_server.region.adoption import adopt, end_part, has_adopted
from aggregator_server.region.contribution import open_part, upload_of
from aggregator_server.region.material import Material, fetch, read_material, strategy_of
from aggregator_server.region.membership import RowKeeper, Writing, client_of, describe_now, writing
from aggregator_server.rounds.states import is_done, is_open
from aggregator_server.store import Store
from aggregator_server.store.tables import RegionRow, RoundRow
from fleet_protocol.client.secret_change import renew_secret, settle_secret
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import AuricleError, LinkError, RefusedError, UnreachableError
from fleet_protocol.messages import Enrolment, Learned, Work

_log = logging.getLogger(__name__)

_POLL_S = 60.0  # a long poll's
_LOOK_S = 2.0  # for whether a part that is open goes on
_PART_S = 0.2  # for whether it is over
_IDLE_S = 2.0  # for whether the fleet is a region
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_END_S = 5.0
_LENGTH = 1_000
# What a server says of an upload that it will never take.
_HOPELESS = {"round_closed", "duplicate_update", "round_not_found", "not_selected"}
_OWN_STATE = (StateAwayError, StorageFullError)  # the region's database or store; it passes
_NO_REASON = (LeaseLostError, LeftRegionError, LinkError, *_OWN_STATE)
"""What is no reason to decline: the next step does it again."""


class RegionLoop:
    """Takes part in the rounds of an upper server, where the fleet is a region."""

    def __init__(self, store: Store, changed: Callable[[], None], poll_s: float = _POLL_S) -> None:
        """Make one that does not run yet.

        Args:
            changed: is called, by the thread, when the fleet's rounds changed.
            poll_s: how long the upper server may take to answer that there is no work.
        """
        self._store = store
        self._changed = changed
        self._poll_s = poll_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="region", daemon=True)
        self._upper: _Upper | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End it; what the upper server is being asked is cut."""
        self._ending.set()
        upper = self._upper
        if upper is not None:
            upper.interrupt()
        self._thread.join(_END_S)

    def _run(self) -> None:
        failures = 0
        while not self._ending.is_set():
            pause = 0.0
            try:
                pause = self.step()
                failures = 0
            except (LeaseLostError, LeftRegionError) as error:
                _log.info("%s", error)
                self._drop()
            except Exception as error:
                if self._ending.is_set():
                    break
                if not isinstance(error, AuricleError):
                    _log.exception("the step of the region failed")
                pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**failures)
                failures = min(failures + 1, 10)
                if isinstance(error, UnreachableError) and self._upper is not None and self._upper.has_another_address:
                    pause = _FIRST_PAUSE_S
                self._note(error)
            self._ending.wait(pause)
        self._drop()

    def _note(self, error: Exception) -> None:
        """Keep for people why the upper server could not be asked."""
        if isinstance(error, _OWN_STATE):
            _log.warning("the step of the region is done again: %s", error)
        elif self._upper is not None and isinstance(error, AuricleError):
            try:
                self._upper.note_problem(str(error))
            except (LeaseLostError, LeftRegionError):
                self._drop()
            except Exception:
                _log.exception("the region's problem could not be noted: %s", error)

    def _drop(self) -> None:
        if self._upper is not None:
            self._upper.close()
            self._upper = None

    def step(self) -> float:
        """Do what is next; return after how many seconds to look again.

        Raises:
            LinkError: the upper server does not answer, or says no. The next step does it again.
            StateAwayError, StorageFullError: the region's own state is away, or full. So does the next step.
            LeaseLostError: another server moves rounds.
            LeftRegionError: the fleet left its upper one meanwhile.
        """
        with self._store.leading() as number:
            leads = number is not None
        region = None
        if leads:
            with self._store.reading() as session:
                region = read_region(session)
        if region is None:
            self._drop()
            return _IDLE_S
        if self._upper is None or self._upper.device_id != region.device_id:
            self._drop()
            self._upper = _Upper(self._store, region, self._changed, self._ending)
        return self._upper.step(self._poll_s)


class _Upper:
    """The upper server, as the region that one row names sees it."""

    def __init__(self, store: Store, region: RegionRow, changed: Callable[[], None], ending: threading.Event) -> None:
        self.device_id = region.device_id
        self._store = store
        self._changed = changed
        self._ending = ending
        self._writing: Writing = writing(store, region.device_id)
        self._client: ServerClient = client_of(region)
        self._said: Enrolment | None = None

    @property
    def has_another_address(self) -> bool:
        return self._client.addresses.another

    def interrupt(self) -> None:
        self._client.interrupt()

    def close(self) -> None:
        self._client.close()

    def note_problem(self, problem: str) -> None:
        """Write down why the upper server could not be asked, where it is new; "": it could."""
        with self._store.reading() as session:
            region = read_region(session)
            same = region is None or (region.problem or "") == problem[:_LENGTH]
        if same:
            return
        with self._writing() as (_, region):
            region.problem = problem[:_LENGTH] or None
        if problem:
            _log.warning("the upper server: %s", problem)
        else:
            _log.info("the upper server answers again")

    def step(self, poll_s: float) -> float:
        if self._said is None:
            settle_secret(self._client, RowKeeper(self._writing))
        self._report()
        with self._store.reading() as session:
            part = _open_part(session)
        work = self._client.work(0.0 if part is not None else poll_s)
        if self._client.new_secret_wanted:
            renew_secret(self._client, RowKeeper(self._writing))
        self.note_problem("")
        if work is None:
            if part is not None:
                self._end_part("the upper fleet's round is over, or does not want this region any more")
            elif self._client.front_end_wanted is not None:
                self._decline(None, "the upper fleet changed its front end; a region cannot follow")
            return 0.0
        if work.kind == "learn":
            self._learn(work)
            return 0.0
        return self._contribute(work)

    def _report(self) -> None:
        """Tell the upper server what has changed of this region; at first, everything."""
        with self._store.reading() as session:
            region = read_region(session)
            if region is None:
                return
            message = describe_now(session, self._store, region)
        if message != self._said:
            self._client.enrol(message, message.secret)
            self._said = message

    def _learn(self, work: Work) -> None:
        """Take over a round's result, or say that the region keeps its own."""
        kept = False
        try:
            material = self._material(work)
            with self._writing() as (session, region):
                adopts = not has_adopted(session, region, work)
                if adopts:
                    adopt(session, region, material, time.time())
        except _NO_REASON:
            raise
        except AuricleError as error:
            kept, adopts = True, False
            self._decline(None, f"the result of round {work.round_id} is not taken over: {error}")
        if adopts:
            _log.info("the result of the upper fleet's round %d is this region's", work.round_id)
            self._changed()
        self._client.learned(Learned(work.round_id, personalised=work.fine_tune, kept_own=kept))

    def _contribute(self, work: Work) -> float:
        """Open the region's part, wait for it, or send its result up; return after how many seconds to look again."""
        with self._store.reading() as session:
            region = read_region(session)
            part = None if region is None or region.part is None else session.get_one(RoundRow, region.part)
            if region is None or region.declined == work.round_id:
                return _LOOK_S
            if part is None or part.upper_round != work.round_id:
                data = None
            elif is_open(part):
                return self._wait_for(part.round_id)
            elif not is_done(part):
                part, data = part, b""
            else:
                data = upload_of(session, self._store.blobs, region, part)
        if data is None:
            self._open(work)
        elif not data and part is not None:
            self._decline(work.round_id, f"round {work.round_id}: this region's round failed: {part.reason}")
        else:
            self._send(work.round_id, data)
        return 0.0

    def _material(self, work: Work) -> Material:
        strategy_of(work)  # before anything is fetched
        fetch(self._client, self._store, work)
        return read_material(self._store.blobs, work)

    def _open(self, work: Work) -> None:
        try:
            material = self._material(work)
            with self._writing() as (session, region):
                row = open_part(session, region, material, time.time())
                number = row.round_id
        except _NO_REASON:
            raise
        except AuricleError as error:
            self._decline(work.round_id, f"round {work.round_id}: {error}")
            return
        _log.info("round %d opened for the upper fleet's round %d", number, work.round_id)
        self._changed()

    def _wait_for(self, round_id: int) -> float:
        """Wait a little for the end of the region's round."""
        end = time.monotonic() + _LOOK_S
        while time.monotonic() < end and not self._ending.wait(_PART_S):
            with self._store.reading() as session:
                if not is_open(session.get_one(RoundRow, round_id)):
                    break
        return 0.0

    def _send(self, round_id: int, data: bytes) -> None:
        try:
            receipt = self._client.upload(round_id, data, lambda: None)
        except RefusedError as error:
            if error.status in (401, 403) and error.code not in _HOPELESS:
                raise
            self._decline(round_id, f"round {round_id}: {error}")
            return
        _log.info("the upper fleet's round %d: uploaded %s", round_id, receipt.sha256)
        with self._store.reading() as session:
            region = read_region(session)
            mended = region is not None and region.trouble is not None
        if mended:
            with self._writing() as (_, region):
                region.trouble = None

    def _decline(self, round_id: int | None, trouble: str) -> None:
        """Take no part in a round, and say why: to people here, and to the upper server with the next step."""
        with self._store.reading() as session:
            region = read_region(session)
            if region is not None and region.trouble == trouble[:_LENGTH] and round_id in (None, region.declined):
                return
        with self._writing() as (_, region):
            region.trouble = trouble[:_LENGTH]
            region.declined = region.declined if round_id is None else round_id
        _log.warning("the upper fleet: %s", trouble)

    def _end_part(self, reason: str) -> None:
        with self._writing() as (session, _):
            end_part(session, time.time(), reason)
        _log.info("the region's round ended: %s", reason)
        self._changed()


def _open_part(session: Session) -> int | None:
    """Return the region's round that is open."""
    region = read_region(session)
    if region is None or region.part is None:
        return None
    row = session.get_one(RoundRow, region.part)
    return row.round_id if is_open(row) else None
