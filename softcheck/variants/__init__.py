"""Softmax implementations under test: what they declare, how they are found, called and compiled."""
