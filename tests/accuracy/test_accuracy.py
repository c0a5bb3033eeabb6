"""Every variant on every saved case: one test per variant, dtype and family."""

import pytest


@pytest.mark.accuracy
def test_accuracy(accuracy):
    accuracy.check()
