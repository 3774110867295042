"""How a fleet becomes a region of another one by an invitation, and how it leaves."""

import secrets
import time
from contextlib import closing
from dataclasses import asdict, replace

from sqlalchemy.orm import Session

from aggregator_server.aggregation.rule import weight_rules
from aggregator_server.errors import JoinError, RoundOpenError
from aggregator_server.fleet import public_sets, shared_models
from aggregator_server.fleet.audit import COMMAND_LINE, audit
from aggregator_server.fleet.classes import all_classes, identifiers, set_columns
from aggregator_server.fleet.region import ONLY, read_region
from aggregator_server.names import check_name
from aggregator_server.region.adoption import end_part, set_public_set
from aggregator_server.region.material import fetch_blob
from aggregator_server.region.membership import PROGRAM, client_of, describe, identity_of
from aggregator_server.rounds.queries import open_round_id
from aggregator_server.store import Store
from aggregator_server.store.tables import RETIRED, BlobRow, RegionRow
from aggregator_server.strategies.registry import complete
from fleet_protocol.addresses import InvitationLink, is_clear
from fleet_protocol.bundle import Manifest
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.invitation import at_one_of
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import AuricleError, PlanError, RefusedError
from fleet_protocol.messages import Choice, Enrolled

# The upper server does not know the region, or shut it out: there is nothing to leave.
_GONE = (401, 403)
_NONE = 404  # it has no public set


def join(
    store: Store, link: InvitationLink, *, name: str, rule: Choice | None = None, insecure_http: bool = False
) -> Enrolled:
    """Enrol this fleet at an upper server as one device, pin its authority, and take over what it works on.

    Interrupted or refused, it may be done again.

    Args:
        name: for people of the upper fleet.
        rule: the region's own rule of aggregation; None: that of each round's strategy.

    Raises:
        JoinError: plain HTTP is not wanted, the fleet is a region already, or has classes or a front end of its own.
        LinkError: the upper server does not answer, says no, or is not the one that invited.
        AuricleError: the rule is none, or what the upper server has cannot be used.
    """
    check_name(name, "the region's name")
    chosen = None if rule is None else _weight_rule(rule)
    clear = next(filter(is_clear, link.addresses), None)
    if clear is not None and not insecure_http:
        raise JoinError(
            f"{clear} is plain HTTP: others can read the invitation and this region's secret. Have the upper "
            "aggregator run with --tls auto and ask for a new invitation, or say --insecure-http"
        )

    def enrol_at(url: str, authority: str | None) -> Enrolled:
        _note(store, link, authority, name, chosen)
        try:
            return _enrol(store, url, authority, link.token)
        except AuricleError:
            _forget(store)
            raise

    return at_one_of(link, enrol_at)


def _weight_rule(rule: Choice) -> Choice:
    """Return a rule with all settings. Raises PlanError: it combines no weights, or a setting is wrong."""
    if rule.name not in weight_rules():
        raise PlanError(f"{rule.name!r} combines no weights; rules that do: {', '.join(sorted(weight_rules()))}")
    return complete("aggregation", rule)


def _note(store: Store, link: InvitationLink, authority: str | None, name: str, rule: Choice | None) -> None:
    """Write down who the region is before anybody hears of it."""
    with store.writing() as session:
        region = read_region(session)
        if region is not None and (region.authority, region.urls) != (authority, list(link.addresses)):
            raise JoinError(f"this fleet is a region of the one at {region.urls[0]}; leave that first: {PROGRAM} leave")
        open_id = open_round_id(session)
        if open_id is not None and region is None:
            raise RoundOpenError(f"round {open_id} is open; wait for it or cancel it before the fleet joins another")
        if region is None:
            region = RegionRow(
                region_id=ONLY,
                device_id=secrets.token_hex(16),
                secret=secrets.token_urlsafe(32),
                next_secret="",
                joined_at=time.time(),
            )
            session.add(region)
        region.urls, region.authority, region.name = list(link.addresses), authority, name
        region.rule = None if rule is None else asdict(rule)


def _forget(store: Store) -> None:
    """Undo :func:`_note` of a fleet that has never been a region."""
    with store.writing() as session:
        region = read_region(session)
        if region is not None and region.part is None and region.adopted is None:
            session.delete(region)


def _enrol(store: Store, url: str, authority: str | None, token: str) -> Enrolled:
    with closing(ServerClient(url, Identity("", token), authority=authority, program=PROGRAM)) as stranger:
        model, manifest = _fetch_model(store, stranger)
    with store.reading() as session:
        region = read_region(session)
        assert region is not None
    with closing(ServerClient(url, identity_of(region), authority=authority, program=PROGRAM)) as client:
        enrolled = client.enrol(describe(region, manifest, 0), token)
        try:
            with store.reading() as session:
                _require_fitting(session, enrolled)
            if not enrolled.waiting:
                _take_over(store, client, enrolled, model, manifest)
        except AuricleError:
            client.leave()
            raise
    with store.writing() as session:
        audit(session, "fleet_joined", COMMAND_LINE, time.time(), upper=url, device_id=region.device_id)
    return enrolled


def _fetch_model(store: Store, client: ServerClient) -> tuple[str, Manifest]:
    with store.blobs.receive() as incoming:
        client.read_bundle(incoming.write)
        manifest = shared_models.read(incoming.content())
        return incoming.keep(), manifest


def _require_fitting(session: Session, enrolled: Enrolled) -> None:
    """Check that the fleet has no classes but the first ones of the upper fleet.

    Raises:
        JoinError: it has.
    """
    own = tuple(info.class_id for info in all_classes(session))
    upper = tuple(info.class_id for info in enrolled.classes)
    if set(identifiers(session)) - set(own) or own != upper[: len(own)]:
        raise JoinError(
            f"this fleet has classes of its own ({', '.join(identifiers(session))[:300]}), and a region has those of "
            f"the upper fleet ({', '.join(upper)[:300]}): join with a new data folder, and have the devices join that"
        )


def _take_over(store: Store, client: ServerClient, enrolled: Enrolled, model: str, manifest: Manifest) -> None:
    """Take over the upper fleet's public set, classes and model, so that devices can join the region at once."""
    try:
        sha256 = client.public_set()
    except RefusedError as error:
        if error.status != _NONE:
            raise
        return
    fetch_blob(client, store.blobs, sha256, client.bounds.public_set_bytes)
    public_set = public_sets.read(store.blobs.read(sha256))
    with store.writing() as session:
        set_public_set(session, sha256, public_set)
        if tuple(info.class_id for info in enrolled.classes) == public_set.class_ids:
            set_columns(session, [replace(info, discovered_in=None) for info in enrolled.classes], left=RETIRED)
        current = shared_models.current_model(session)
        if current is None or current.sha256 != model:
            session.merge(BlobRow(sha256=model, kind="model"))
            shared_models.insert(session, model, manifest)


def leave(store: Store, *, notify: bool) -> str:
    """Take the fleet out of its upper one; it keeps model, classes and rounds. Return the upper server's address.

    Args:
        notify: whether to tell the upper server; where it is gone for ever, it cannot be told.

    Raises:
        JoinError: the fleet is no region.
        LinkError: the upper server does not answer, or says no.
    """
    with store.reading() as session:
        region = read_region(session)
    if region is None:
        raise JoinError("this fleet is no region of another one")
    if notify:
        _say_goodbye(region)
    now = time.time()
    with store.writing() as session:
        end_part(session, now, "the fleet left its upper one")
        session.delete(session.get_one(RegionRow, ONLY))
        audit(session, "fleet_left", COMMAND_LINE, now, upper=region.urls[0], device_id=region.device_id)
    return region.urls[0]


def _say_goodbye(region: RegionRow) -> None:
    with closing(client_of(region)) as client:
        for secret in filter(None, (region.secret, region.next_secret)):
            client.show(secret)
            try:
                client.leave()
            except RefusedError as error:
                if error.status not in _GONE:
                    raise
