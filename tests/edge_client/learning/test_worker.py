"""The training process: what it is asked for."""

import pytest

from edge_client.learning.training_job import from_line
from fleet_protocol.errors import MessageError


@pytest.mark.parametrize("line", ["", "no JSON\n", "[]\n", '{"kind": "dance"}\n'])
def test_a_line_that_is_no_job_is_refused(line):
    with pytest.raises(MessageError):
        from_line(line)
