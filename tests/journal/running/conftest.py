"""A store in memory for each of the three faces of a leased run."""

from __future__ import annotations

import pytest
from run_faces import FACES, Face


@pytest.fixture(params=FACES, ids=lambda face: face.name)
def face(request: pytest.FixtureRequest) -> Face:
    face: Face = request.param
    return face
