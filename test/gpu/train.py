"""Client: training steps of a small transformer with sequences of varying length.

Every loss is printed with all its digits. Nothing in the model is order-dependent (no embedding, attention written as
plain products), so that two runs give the same losses to the last digit. STEPS and BATCH can be set in the environment."""

import json
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, CLASSES = 512, 8, 6, 1000


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixed = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        split = self.mixed(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = split[0], split[1], split[2]
        weights = torch.softmax(query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5, dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(batch, length, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.between = nn.LayerNorm(WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.wide(self.between(x))


def main():
    torch.manual_seed(20)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    model = nn.Sequential(*[Layer() for _ in range(LAYERS)], nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    draw = torch.Generator().manual_seed(11)
    batch = int(os.environ.get("BATCH", "8"))
    losses, times = [], []
    for _ in range(int(os.environ.get("STEPS", "40"))):
        length = int(torch.randint(64, 512, (1,), generator=draw))
        inputs = torch.randn(batch, length, WIDTH, generator=draw).cuda()
        targets = torch.randint(0, CLASSES, (batch, length), generator=draw).cuda()
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
        losses.append(repr(float(loss)))
    free, total = torch.cuda.mem_get_info()
    print(json.dumps({"ok": True, "why": "", "result": {"losses": losses},
                      "volatile": {"step_ms": times, "used_mib": (total - free) >> 20, "torch": torch.__version__}}))


main()
