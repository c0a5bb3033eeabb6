"""The judge as Triton kernels: it reads input and output where they are and sends back a few numbers.

``judge.judge_on_device`` is its entry. Of softcheck.judge, only this package imports torch and triton.
"""
