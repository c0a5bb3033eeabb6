"""Every variant on cases that hypothesis makes."""

import pytest
from share import leave_out_all_but_one_dtype


@pytest.mark.accuracy
def test_generated(generated_accuracy, request):
    leave_out_all_but_one_dtype(generated_accuracy, "generated", request.config)
    generated_accuracy.search()
