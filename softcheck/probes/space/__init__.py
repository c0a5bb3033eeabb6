"""The space of circumstances of a call: axes with values, ways as points, and plans in which values meet."""
