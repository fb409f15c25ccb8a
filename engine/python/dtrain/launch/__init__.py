"""Launchers of Determined that scripts name: `python3 -m dtrain.launch.wrap_rank`."""
