"""What every strategy checks of an upload: the classes and new sounds that it names, and its arrays.

Of arrays: their names, shapes and dtype, that every number is finite (``tensors.require``), and that it is one that an
honest device can come to (aggregation/input_bounds.py). Before that web/request_bodies.py bounds the bytes, and
rounds/devices/uploads.py checks the document.
"""

from collections import Counter

import numpy as np

from aggregator_server.aggregation.contract import UploadTerms
from aggregator_server.aggregation.input_bounds import check_cosines
from aggregator_server.errors import InvalidRequestError, MalformedUpdateError
from aggregator_server.limits import IMPRESSION_RANGES, IMPRESSIONS, PROTOTYPE_LEAST_WIDTH, PROTOTYPE_RANGES, SLOTS
from aggregator_server.names import check_name
from fleet_protocol.errors import TensorError
from fleet_protocol.limits import REPORTS
from fleet_protocol.messages.rest import Update
from fleet_protocol.numbers.tensors import Arrays, require

_EMBEDDINGS = (PROTOTYPE_RANGES, PROTOTYPE_LEAST_WIDTH)
_RANGES = {"impressions": (IMPRESSION_RANGES,)} | dict.fromkeys(("prototypes", "negatives", "before"), _EMBEDDINGS)
Shapes = dict[str, tuple[int | None, ...]]


def check_document(terms: UploadTerms, update: Update) -> None:
    """Check the classes and new sounds that an upload names. Raises MalformedUpdateError: they are wrong; says what."""
    if not update.classes and not update.reports:
        raise MalformedUpdateError("the upload names no class and reports no new sound, so it says nothing")
    needed = len(terms.class_ids) + len(update.reports)
    if terms.manifest is not None and needed > terms.manifest.slots:
        raise MalformedUpdateError(
            f"{len(terms.class_ids)} classes and {len(update.reports)} new sounds do not fit the shared model's head "
            f"of capacity {terms.manifest.slots}; publish a model that was built with a larger --capacity"
        )
    for field, class_ids in (("classes", update.classes), ("known", update.known)):
        unknown = [class_id for class_id in class_ids if class_id not in terms.class_ids]
        if unknown:
            raise MalformedUpdateError(
                f"{field!r} names {unknown[0]!r}, which is no class of the fleet: {', '.join(terms.class_ids)}"
            )
        twice = [class_id for class_id, times in Counter(class_ids).items() if times > 1]
        if twice:
            raise MalformedUpdateError(f"{field!r} names class {twice[0]!r} twice")
    if len(update.reports) > REPORTS:
        raise MalformedUpdateError(
            f"{len(update.reports)} new sounds in one upload; at most {REPORTS} are taken; report the others later"
        )
    slots = [report.slot for report in update.reports]
    if len(set(slots)) != len(slots) or any(not 0 <= slot < SLOTS for slot in slots):
        raise MalformedUpdateError(f"reported slots must be different and from 0 to {SLOTS - 1}, not {slots}")
    for report in update.reports:
        if report.clips < 1:
            raise MalformedUpdateError(f"the sound in slot {report.slot} was learned from {report.clips} clips")
        try:
            check_name(report.name or "unnamed", f"the name of the sound in slot {report.slot}")
        except InvalidRequestError as error:
            raise MalformedUpdateError(str(error)) from error


def check_arrays(terms: UploadTerms, update: Update, arrays: Arrays, wanted: Shapes) -> None:
    """Check an upload's arrays: the strategy's own, and those that describe new sounds; no other may be there.

    ``wanted``: shapes of the strategy's own arrays by name; None is any size. Raises MalformedUpdateError: naming the
    array, what was expected and what was given.
    """
    described = len(update.known) + len(update.reports)
    if described and terms.settings.is_embedding:
        wanted = wanted | {"prototypes": (described, *terms.settings.shape)}
    elif described:
        wanted = wanted | {"impressions": (described, None, *terms.settings.shape)}
        if "profiles" in arrays:
            wanted["profiles"] = (described, terms.samples)
    extra = sorted(set(arrays) - set(wanted))
    if extra:
        raise MalformedUpdateError(f"array {extra[0]!r} does not belong to this upload; expected: {', '.join(wanted)}")
    try:
        for name, shape in wanted.items():
            if require(arrays, name, shape).dtype != np.float32:
                raise MalformedUpdateError(f"array {name!r} must be float32, not {arrays[name].dtype}")
    except TensorError as error:
        raise MalformedUpdateError(str(error)) from error
    if "impressions" in wanted and not 1 <= arrays["impressions"].shape[1] <= IMPRESSIONS:
        raise MalformedUpdateError(
            f"array 'impressions' holds {arrays['impressions'].shape[1]} impressions of each class; "
            f"send 1 to {IMPRESSIONS}"
        )
    if "profiles" in arrays:
        check_cosines("profiles", arrays["profiles"])
    for name, ranges in _RANGES.items():
        if name in arrays and terms.feature_range is not None:
            terms.feature_range().check(name, arrays[name], *ranges)
