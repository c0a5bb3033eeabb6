"""Every variant on cases that hypothesis makes."""

import pytest


@pytest.mark.accuracy
def test_generated(generated_accuracy):
    generated_accuracy.search()
