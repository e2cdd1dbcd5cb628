"""Clients on top of other allocators and loaders: frameworks.py NAME. Prints one JSON line; "result" must be the same in
every run."""

import json
import sys


def cupy_with_pool():
    import cupy

    generator = cupy.random.RandomState(5)
    total = [repr(float((generator.rand(1 << 20) * 2).sum())) for _ in range(20)]
    return {"sums": total}, {"pool_bytes": cupy.get_default_memory_pool().used_bytes()}


def cupy_without_pool():
    import cupy

    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
    generator = cupy.random.RandomState(5)
    sums = []
    for i in range(20):
        a = generator.rand((1 << 18) + 1000 * i)
        sums.append(repr(float((a * 2).sum())))
        sums.append(repr(float(cupy.sort(a)[i])))
    return {"sums": sums}, {}


def jax():
    import jax as j
    import jax.numpy as jnp

    # Integers: floating-point sums come out differently from run to run, natively as well.
    a = j.random.randint(j.random.PRNGKey(3), (1000, 1000), 0, 100003)
    step = j.jit(lambda x: jnp.sort((3 * x + x.T) % 100003, axis=0))
    sums = []
    for _ in range(10):
        a = step(a)
        sums.append(int(a.sum()))
    return {"sums": sums}, {"devices": str(j.devices())}


def triton():
    import torch
    from triton_kernel import add

    sums = []
    for n in (1000, 4096, 100001):
        a = torch.arange(n, device="cuda", dtype=torch.float32)
        sums.append(repr(add(a, a).double().sum().item()))
    return {"sums": sums}, {}


def loader():
    import torch
    from torch.utils import data

    class Rows(data.Dataset):
        def __len__(self):
            return 128

        def __getitem__(self, i):
            return torch.full((5000,), float(i * i % 97))

    torch.zeros(1, device="cuda")  # CUDA is in use before the workers are forked
    sums = []
    for _ in range(2):
        for rows in data.DataLoader(Rows(), batch_size=16, num_workers=2, pin_memory=True,
                                    multiprocessing_context="fork"):
            sums.append(rows.cuda(non_blocking=True).sum().item())
    return {"sums": sums}, {}


CLIENTS = {"cupy": cupy_with_pool, "cupy-nopool": cupy_without_pool, "jax": jax, "triton": triton, "loader": loader}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in CLIENTS:
        sys.exit("usage: frameworks.py " + "|".join(CLIENTS))
    result, varying = CLIENTS[sys.argv[1]]()
    print(json.dumps({"ok": True, "why": "", "result": result, "volatile": varying}))


if __name__ == "__main__":
    main()
