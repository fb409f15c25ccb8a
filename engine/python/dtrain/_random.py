"""States of the generators of random numbers of Python, NumPy and PyTorch, as plain values
and tensors, which `torch.load(weights_only=True)` reads. NumPy and PyTorch count only once
the script has imported them."""

import random
import sys
from typing import Any, Dict


def states() -> Dict[str, Any]:
    """Returns the states of this process: of the CPU and of its current GPU."""
    version, numbers, gauss = random.getstate()
    found: Dict[str, Any] = {"python": [version, list(numbers), gauss]}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        found["numpy"] = [name, keys.tolist(), *rest]
    if torch is not None:
        found["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            found["cuda"] = torch.cuda.get_rng_state()
    return found


def restore(found: Dict[str, Any]) -> None:
    """Continues with what `states()` returned."""
    version, numbers, gauss = found["python"]
    random.setstate((version, tuple(numbers), gauss))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" in found:
        name, keys, *rest = found["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), *rest))
    if torch is not None and "torch" in found:
        torch.set_rng_state(found["torch"].cpu())
        if "cuda" in found and torch.cuda.is_available():
            torch.cuda.set_rng_state(found["cuda"].cpu())
