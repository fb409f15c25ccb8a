// Nothing: the target of this file is there for its precompiled header.
