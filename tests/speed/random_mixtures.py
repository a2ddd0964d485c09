"""Small random networks of kinds that random_networks.py has none of: FOLDER/mixture_SEED_0.xml, ..., and what each is on
standard output.

Volumes, encoders with decoders, attention of uneven heads, embeddings with their interactions, graphs, detectors, generators
with computed weights, experts, spectrograms, sets of points and running sums, of one to eight records.

Needs torch and openvino: python random_mixtures.py FOLDER SEED COUNT
"""

import sys
from pathlib import Path
from random import Random

import openvino as ov
import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIVATIONS = [getattr(nn, name) for name in "ReLU ReLU SiLU GELU LeakyReLU ELU Hardswish Tanh Softplus".split()]
BATCHES = [1, 1, 1, 2, 3, 4, 8]


class Apply(nn.Module):
    """A function with the parameters and layers that it uses."""

    def __init__(self, function, *layers, **tables):
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function
        for name, table in tables.items():
            self.register_buffer(name, table)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def volumes(r):
    c = r.choice([1, 2, 3, 4])
    shape = [r.choice([6, 8, 12, 16]), r.choice([20, 24, 32]), r.choice([20, 24, 32])]
    layers, before = [], c
    for _ in range(r.randint(2, 4)):
        after = r.choice([8, 12, 16, 24, 32])
        size = r.choice([3, 3, 1, (1, 3, 3), (3, 1, 1), (3, 5, 5)])
        pad = size // 2 if isinstance(size, int) else tuple(s // 2 for s in size)
        layers += [nn.Conv3d(before, after, size, r.choice([1, 1, (1, 2, 2)]), pad)]
        layers += [r.choice([nn.BatchNorm3d(after), nn.InstanceNorm3d(after), nn.Identity()]), r.choice(ACTIVATIONS)()]
        before = after
        layers += r.choice([[], [nn.MaxPool3d((1, 2, 2))], [nn.Conv3d(after, after, 3, padding=1, groups=after)]])
    layers += r.choice(
        [[nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(before, 10)], [nn.ConvTranspose3d(before, 4, 2, 2)]]
    )
    return nn.Sequential(*layers), [torch.zeros(r.choice([1, 1, 2]), c, *shape)]


def decoders(r):
    widths = [r.choice([8, 12, 16, 24, 32]) * k for k in (1, 2, 3, 4)[: r.randint(2, 4)]]
    size = r.choice([32, 40, 48, 64, 80])
    size -= size % 2 ** (len(widths) - 1)
    act, norm = r.choice(ACTIVATIONS), r.choice([nn.BatchNorm2d, nn.InstanceNorm2d, lambda c: nn.GroupNorm(4, c)])
    block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), norm(o), act())
    up_by, join = r.choice(["transposed", "nearest", "bilinear", "shuffle"]), r.choice(["concat", "sum"])

    def up(i, o):
        if up_by == "transposed":
            return (
                nn.ConvTranspose2d(i, o, r.choice([2, 4]), 2, 0)
                if r.random() < 0.5
                else nn.ConvTranspose2d(i, o, 4, 2, 1)
            )
        if up_by == "shuffle":
            return nn.Sequential(nn.Conv2d(i, 4 * o, 1), nn.PixelShuffle(2))
        return nn.Sequential(nn.Upsample(scale_factor=2, mode=up_by), nn.Conv2d(i, o, r.choice([1, 3]), padding="same"))

    down = [block(i, o) for i, o in zip([3] + widths, widths)]
    ups = [up(i, o) for i, o in zip(widths[:0:-1], widths[-2::-1])]
    after = [block(2 * o if join == "concat" else o, o) for o in widths[-2::-1]]
    last = nn.Conv2d(widths[0], r.choice([1, 2, 5, 21]), 1)
    n = len(widths)

    def run(m, x):
        kept = []
        for i in range(n):
            x = m.layers[i](x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for i in range(n - 1):
            y, old = m.layers[n + i](x), kept[n - 2 - i]
            y = y[:, :, : old.shape[2], : old.shape[3]]
            x = m.layers[2 * n - 1 + i](torch.cat([y, old], 1) if join == "concat" else y + old)
        return m.layers[-1](x).softmax(1) if last.out_channels > 1 else torch.sigmoid(m.layers[-1](x))

    return Apply(run, *down, *ups, *after, last), [torch.zeros(r.choice(BATCHES[:5]), 3, size, size)]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6) * self.weight


def attention(r):
    heads, each = r.choice([1, 2, 3, 4, 5, 6, 8]), r.choice([8, 16, 20, 24, 32, 40, 64])
    width, tokens, batch = heads * each, r.choice([7, 16, 33, 49, 50, 64, 77, 100, 197]), r.choice(BATCHES)
    kind = r.choice(["plain", "causal", "bias", "crossed", "few_keys", "linear", "rotary"])
    other = r.choice([5, 13, 48, 77]) if kind == "crossed" else tokens
    keys = max(k for k in (1, 2, 3) if heads % k == 0) if kind == "few_keys" else heads
    norm, gated = r.choice([nn.LayerNorm, Norm]), r.random() < 0.4
    hidden = r.choice([2, 3, 4]) * width
    angles = torch.outer(torch.arange(tokens), 1e4 ** (-torch.arange(0, each, 2) / each)).repeat(1, 2)
    tables = dict(mask=torch.full((tokens, tokens), -1e9).triu(1), bias=torch.randn(heads, tokens, tokens))
    tables.update(cos=angles.cos(), sin=angles.sin())

    def turn(m, x):
        a, b = x.chunk(2, -1)
        return x * m.cos + torch.cat([-b, a], -1) * m.sin

    def layer(m, i, x, y):
        n1, q, k, v, o, n2, one, two = m.layers[i : i + 8]
        z = n1(x)
        source = z if kind != "crossed" else y
        parts = lambda t, h: t.reshape(t.shape[0], t.shape[1], h, each).transpose(1, 2)
        q, k, v = parts(q(z), heads), parts(k(source), keys), parts(v(source), keys)
        if keys < heads:
            k, v = k.repeat_interleave(heads // keys, 1), v.repeat_interleave(heads // keys, 1)
        if kind == "rotary":
            q, k = turn(m, q), turn(m, k)
        if kind == "linear":
            z = q.softmax(-1) @ (k.softmax(-2).transpose(-1, -2) @ v)
        else:
            s = q @ k.transpose(-1, -2) * each**-0.5
            s = s + m.mask if kind == "causal" else s + m.bias if kind == "bias" else s
            z = s.softmax(-1) @ v
        x = x + o(z.transpose(1, 2).reshape(x.shape))
        z = one(n2(x))
        if gated:
            a, b = z.chunk(2, -1)
            return x + two(F.silu(a) * b)
        return x + two(F.gelu(z))

    layers = []
    for _ in range(r.randint(1, 3)):
        kv = [nn.Linear(width, keys * each, bias=False) for _ in range(2)]
        mlp = [nn.Linear(width, 2 * hidden if gated else hidden), nn.Linear(hidden, width)]
        layers += [norm(width), nn.Linear(width, width), *kv, nn.Linear(width, width), norm(width), *mlp]

    def run(m, x, y=None):
        for i in range(0, len(layers), 8):
            x = layer(m, i, x, y)
        return x

    inputs = [torch.zeros(batch, tokens, width)] + [torch.zeros(batch, other, width)] * (kind == "crossed")
    return Apply(run, *layers, **tables), inputs


def records(r):
    fields, width, batch = r.randint(3, 26), r.choice([4, 8, 16, 32]), r.choice([1, 4, 16, 64])
    tables = [nn.Embedding(r.choice([10, 100, 1000, 5000]), width) for _ in range(fields)]
    dense = r.choice([4, 13])
    first = nn.Linear(dense, width)
    kind = r.choice(["dots", "factors", "crossed"])
    places = torch.triu_indices(fields + 1, fields + 1, 1)
    flat = (fields + 1) * width
    inputs = {"dots": places.shape[1] + width, "factors": width, "crossed": flat}[kind]
    crossed = [nn.Linear(flat, flat) for _ in range(2)] if kind == "crossed" else []
    hidden = r.choice([32, 64, 100, 256])
    last = nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden // 2), nn.ReLU(), nn.Linear(hidden // 2, 1)
    )

    def run(m, ids, x):
        d = F.relu(m.layers[fields](x))
        e = torch.stack([m.layers[i](ids[:, i]) for i in range(fields)] + [d], 1)
        if kind == "dots":
            z = e @ e.transpose(1, 2)
            z = torch.cat([z[:, m.places[0], m.places[1]], d], 1)
        elif kind == "factors":
            z = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1))
        else:
            z = first_row = e.flatten(1)
            for layer in crossed:
                z = first_row * layer(z) + z
        return torch.sigmoid(m.layers[-1](z))

    return Apply(run, *tables, first, *crossed, last, places=places), [
        torch.zeros(batch, fields, dtype=torch.long),
        torch.zeros(batch, dense),
    ]


def graphs(r):
    nodes, edges, width = r.choice([20, 50, 100, 300]), r.choice([100, 400, 1000]), r.choice([8, 16, 32, 64])
    generator = torch.Generator().manual_seed(r.randint(0, 999))
    of = torch.randint(0, nodes, (edges,), generator=generator)
    to = torch.cat([torch.arange(nodes), torch.randint(0, nodes, (edges,), generator=generator)])[:edges]
    count = torch.zeros(nodes).index_add(0, to, torch.ones(edges)).clamp(min=1)[:, None]
    kind = r.choice(["mean", "edges", "attention", "dense"])
    adjacent = torch.zeros(nodes, nodes).index_put((to, of), torch.ones(edges)) / count
    depth = r.randint(1, 3)
    layers = []
    for _ in range(depth):
        layers += [
            nn.Linear(2 * width, width),
            nn.Linear(2 * width if kind == "edges" else width, width),
            nn.Linear(2 * width, 1),
        ]

    def run(m, x):
        for i in range(0, len(layers), 3):
            a, b, s = m.layers[i : i + 3]
            if kind == "dense":
                y = m.adjacent @ b(x)
            elif kind == "mean":
                y = torch.zeros_like(x).index_add(0, m.to_, b(x)[m.of]) / m.count
            elif kind == "edges":
                y = torch.zeros_like(x).index_add(0, m.to_, F.relu(b(torch.cat([x[m.of], x[m.to_]], 1))))
            else:
                z = b(x)
                w = F.leaky_relu(s(torch.cat([z[m.of], z[m.to_]], 1)), 0.2).exp()
                y = torch.zeros_like(x).index_add(0, m.to_, w * z[m.of])
                y = y / (torch.zeros(nodes, 1).index_add(0, m.to_, w) + 1e-9)
            x = F.relu(a(torch.cat([x, y], 1)))
        return x.mean(0)

    return Apply(run, *layers, of=of, to_=to, count=count, adjacent=adjacent), [torch.zeros(nodes, width)]


def detectors(r):
    size, classes, anchors = r.choice([96, 128, 160]), r.choice([1, 4, 20, 80]), r.choice([1, 3, 6])
    w = r.choice([16, 24, 32])
    act = r.choice(ACTIVATIONS)
    block = lambda i, o, s=2: nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), act())
    stages = [nn.Sequential(block(3, w), block(w, w)), block(w, 2 * w), block(2 * w, 4 * w)]
    heads = [
        nn.Conv2d(2 * w, anchors * (5 + classes), 1),
        nn.Conv2d(4 * w, anchors * (5 + classes), r.choice([1, 3]), padding="same"),
    ]
    cells = sum(anchors * (size // s) ** 2 for s in (8, 16))
    few = r.choice([0, 20, 100])
    grid = torch.rand(cells, 2)

    def run(m, x):
        b = m.layers[1](m.layers[0](x))
        c = m.layers[2](b)
        found = []
        for head, y in ((m.layers[3], b), (m.layers[4], c)):
            z = head(y)
            z = z.reshape(z.shape[0], anchors, 5 + classes, -1).permute(0, 1, 3, 2)
            found.append(z.reshape(z.shape[0], -1, 5 + classes))
        z = torch.cat(found, 1)
        xy, wh = torch.sigmoid(z[..., :2]) * 2 - 0.5 + m.grid, z[..., 2:4].exp()
        scores = torch.sigmoid(z[..., 4:5]) * (torch.sigmoid(z[..., 5:]) if r_sigmoid else z[..., 5:].softmax(-1))
        boxes = torch.cat([xy - wh / 2, xy + wh / 2], -1)
        if not few:
            return torch.cat([boxes, scores], -1)
        best, at = scores.amax(-1).topk(few, 1)
        return best, boxes.gather(1, at[..., None].expand(-1, -1, 4))

    r_sigmoid = r.random() < 0.5
    return Apply(run, *stages, *heads, grid=grid), [torch.zeros(r.choice([1, 1, 2]), 3, size, size)]


def generators(r):
    latent, w, size = r.choice([32, 64, 100]), r.choice([16, 24, 32, 48]), r.choice([4, 7, 8])
    steps, batch = r.randint(2, 3), r.choice([1, 1, 2])
    kind = r.choice(["modulated", "styled", "plain"])
    layers = [nn.Linear(latent, w * size * size)]
    for _ in range(steps):
        layers += [nn.Conv2d(w, w, 3, padding=1), nn.Linear(latent, w), nn.Linear(latent, w)]
    layers += [nn.Conv2d(w, 3, 1)]

    def run(m, z):
        x = m.layers[0](z).reshape(-1, w, size, size)
        for i in range(1, 3 * steps, 3):
            conv, a, b = m.layers[i : i + 3]
            x = F.interpolate(x, scale_factor=2, mode="bilinear" if kind == "plain" else "nearest")
            if kind == "modulated":
                weights = conv.weight[None] * (a(z) + 1)[:, None, :, None, None]
                weights = weights * torch.rsqrt(weights.pow(2).sum((2, 3, 4), True) + 1e-8)
                n, _, h, v = x.shape
                x = F.conv2d(x.reshape(1, n * w, h, v), weights.reshape(n * w, w, 3, 3), padding=1, groups=n).reshape(
                    n, w, h, v
                )
            else:
                x = conv(x)
            if kind == "styled":
                x = F.instance_norm(x) * (1 + a(z)[..., None, None]) + b(z)[..., None, None]
            x = F.leaky_relu(x, 0.2)
        return torch.tanh(m.layers[-1](x))

    return Apply(run, *layers), [torch.zeros(batch, latent)]


def experts(r):
    count, width, tokens, few = (
        r.choice([2, 4, 8]),
        r.choice([32, 64, 96, 128]),
        r.choice([1, 16, 50]),
        r.choice([0, 1, 2]),
    )
    one, two = torch.randn(count, width, 2 * width) * width**-0.5, torch.randn(count, 2 * width, width) * width**-0.5
    gate = nn.Linear(width, count)

    def run(m, x):
        g = m.layers[0](x)
        if few:
            best, at = g.topk(few, -1)
            g = torch.zeros_like(g).scatter(-1, at, best.softmax(-1))
        else:
            g = g.softmax(-1)
        h = F.gelu(torch.einsum("td,edh->teh", x, m.one))
        return x + torch.einsum("teh,ehd,te->td", h, m.two, g)

    return Apply(run, gate, one=one, two=two), [torch.zeros(tokens, width)]


def spectrograms(r):
    frame, hop, mels = r.choice([128, 200, 256, 400]), r.choice([64, 80, 128, 160]), r.choice([20, 40, 64, 80])
    samples, bins = frame + hop * r.choice([20, 49, 100]), frame // 2 + 1
    t = torch.outer(torch.arange(bins), torch.arange(frame)) * (2 * torch.pi / frame)
    bases = (torch.cat([t.cos(), -t.sin()]) * torch.hann_window(frame))[:, None]
    w = r.choice([16, 32, 64])
    kind = r.choice(["image", "signal", "recurrent"])
    body = {
        "image": lambda: [nn.Conv2d(1, w, 3, 2, 1), nn.Conv2d(w, 10, 3, 2, 1)],
        "signal": lambda: [nn.Conv1d(mels, w, 5, padding=2), nn.Conv1d(w, 10, 3, 2)],
        "recurrent": lambda: [nn.GRU(mels, w, batch_first=True, bidirectional=r.random() < 0.5), nn.Identity()],
    }[kind]()

    def run(m, x):
        z = F.conv1d(x[:, None], m.bases, stride=hop)
        power = z[:, :bins] ** 2 + z[:, bins:] ** 2
        x = torch.log(m.filters @ power + 1e-5)
        x = (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-3)
        if kind == "recurrent":
            return m.layers[0](x.transpose(1, 2))[0]
        x = F.relu(m.layers[0](x[:, None] if kind == "image" else x))
        return m.layers[1](x).flatten(2).mean(-1)

    return Apply(run, *body, bases=bases, filters=torch.rand(mels, bins)), [torch.zeros(r.choice([1, 1, 4]), samples)]


def points(r):
    count, near, w = r.choice([64, 128, 256, 500]), r.choice([0, 4, 8, 16]), r.choice([16, 32, 64])
    batch = r.choice([1, 1, 2])
    layers = [nn.Linear(6 if near else 3, w), nn.Linear(w, 2 * w), nn.Linear(2 * w, r.choice([10, 40]))]

    def run(m, x):
        y = x
        if near:
            far = (x[:, :, None] - x[:, None]).pow(2).sum(-1) if count < 200 else torch.cdist(x, x)
            at = far.topk(near, -1, largest=False)[1]
            others = x.gather(1, at.reshape(batch, -1, 1).expand(-1, -1, 3)).reshape(batch, count, near, 3)
            here = x[:, :, None].expand_as(others)
            y = torch.cat([here, others - here], -1)
        y = F.relu(m.layers[0](y))
        y = y.amax(2) if near else y
        return m.layers[2](F.relu(m.layers[1](y)).amax(1))

    return Apply(run, *layers), [torch.zeros(batch, count, 3)]


def running(r):
    width, steps, taps = r.choice([16, 32, 64, 96]), r.choice([30, 64, 100, 256]), r.choice([3, 4, 7])
    kind = r.choice(["sums", "shifts", "products"])
    layers = [
        nn.Linear(width, 2 * width),
        nn.Conv1d(width, width, taps, padding=taps - 1, groups=width),
        nn.Linear(width, width),
    ]

    def run(m, x):
        a, b = m.layers[0](x).chunk(2, -1)
        y = F.silu(m.layers[1](a.transpose(1, 2))[..., :steps].transpose(1, 2))
        if kind == "sums":
            weights = b.clamp(-5, 5).exp()
            y = (y * weights).cumsum(1) / weights.cumsum(1)
        elif kind == "shifts":
            late = F.pad(y, (0, 0, 1, 0))[:, :steps]
            y = torch.lerp(late, y, m.mix) * torch.sigmoid(b)
        else:
            decay = (m.mix[None, None] * torch.arange(steps)[None, :, None]).neg().exp()
            y = y * decay
        return x + m.layers[2](y * torch.sigmoid(b))

    return Apply(run, *layers, mix=torch.rand(width)), [torch.zeros(r.choice(BATCHES), steps, width)]


KINDS = [volumes, decoders, decoders, attention, attention, attention, records, graphs, detectors, generators, experts]
KINDS += [spectrograms, points, running]


def main(folder, seed, count):
    for number in range(count):
        r = Random(f"{seed} {number}")
        torch.manual_seed(r.randint(0, 1 << 30))
        kind = r.choice(KINDS)
        name = f"mixture_{seed}_{number}"
        try:
            network, inputs = kind(r)
            with torch.no_grad():
                model = ov.convert_model(network.eval(), example_input=tuple(inputs) if len(inputs) > 1 else inputs[0])
            model.reshape({i: list(x.shape) for i, x in enumerate(inputs)})
            ov.save_model(model, folder / f"{name}.xml", compress_to_fp16=False)
            print(name, kind.__name__, [list(x.shape) for x in inputs], flush=True)
        except Exception as problem:
            print(name, kind.__name__, "failed:", str(problem)[:200].replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
