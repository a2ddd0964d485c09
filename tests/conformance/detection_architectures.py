"""Detectors with everything up to the boxes that are kept, in small sizes."""

import torch
from torch import nn
from torch.nn import functional as F

from architectures import image, model
from recipes import Recipe


class Detector(nn.Module):
    """A detector of torchvision on one image: boxes, scores and labels."""

    def __init__(self, detector, keys=("boxes", "scores", "labels")):
        super().__init__()
        self.detector, self.keys = detector, keys
        # The initial weights make all scores alike, and boxes of one score have no order.
        for part in detector.head.modules() if hasattr(detector, "head") else ():
            if isinstance(part, nn.Conv2d):
                nn.init.normal_(part.weight, 0, 0.1)

    def forward(self, x):
        found = self.detector([x])
        found = found[1] if isinstance(found, tuple) else found
        return tuple(found[0][key] for key in self.keys)


def backbone(channels=(8, 16, 24), levels=2, out=16):
    """A few convolutions; maps of several levels as a dictionary."""

    class Backbone(nn.Module):
        def __init__(self):
            super().__init__()
            self.out_channels = out
            into = (3, *channels[:-1])
            self.layers = nn.ModuleList(
                nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip(into, channels))
            self.sides = nn.ModuleList(nn.Conv2d(c, out, 1) for c in channels[-levels:])

        def forward(self, x):
            maps = []
            for layer in self.layers:
                x = layer(x)
                maps.append(x)
            return {str(i): side(y) for i, (side, y) in enumerate(zip(self.sides, maps[-levels:]))}

    return Backbone()


def anchors(levels, sizes=(8, 16, 32), ratios=(0.5, 1.0, 2.0)):
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    return AnchorGenerator(tuple((size,) for size in sizes[:levels]), (ratios,) * levels)


FIXED = {"min_size": 64, "max_size": 64}


@model
def detection_retinanet():
    from torchvision.models.detection import RetinaNet

    detector = RetinaNet(backbone(out=32), 4, anchor_generator=anchors(2), score_thresh=0.01, detections_per_img=20,
                         topk_candidates=50, **FIXED)
    return Detector(detector), [torch.rand(3, 64, 64)]


@model
def detection_fcos():
    from torchvision.models.detection import FCOS

    detector = FCOS(backbone(out=32), 4, anchor_generator=anchors(2, ratios=(1.0,)), score_thresh=0.01,
                    detections_per_img=20, topk_candidates=50, **FIXED)
    return Detector(detector), [torch.rand(3, 64, 64)]


@model
def detection_ssd():
    from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
    from torchvision.models.detection.ssd import SSD

    body = backbone()
    body.out_channels = [16, 16]
    boxes = DefaultBoxGenerator([[2], [2, 3]], min_ratio=20, max_ratio=90)
    detector = SSD(body, boxes, (64, 64), 4, score_thresh=0.01, detections_per_img=20, topk_candidates=50)
    return Detector(detector), [torch.rand(3, 64, 64)]


def box_head(channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, 32), nn.ReLU())


def two_stages(kind, **arguments):
    import torchvision
    from torchvision.models import detection
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor

    pool = torchvision.ops.MultiScaleRoIAlign(["0", "1"], 4, 2)
    return getattr(detection, kind)(
        backbone(), None, rpn_anchor_generator=anchors(2), box_roi_pool=pool, box_head=box_head(16, 4),
        box_predictor=FastRCNNPredictor(32, 4), box_score_thresh=0.01, box_detections_per_img=10, rpn_pre_nms_top_n_test=40,
        rpn_post_nms_top_n_test=12, **FIXED, **arguments)


@model
def detection_faster_rcnn():
    return Detector(two_stages("FasterRCNN")), [torch.rand(3, 64, 64)]


@model
def detection_mask_rcnn():
    import torchvision
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor

    masks = {"mask_roi_pool": torchvision.ops.MultiScaleRoIAlign(["0", "1"], 6, 2),
             "mask_head": MaskRCNNHeads(16, (16,), 1), "mask_predictor": MaskRCNNPredictor(16, 8, 4)}
    detector = Detector(two_stages("MaskRCNN", **masks), ("boxes", "scores", "masks"))
    # Every mask is resized to its box, which is at most 64 * 14 / 12 + 1 wide and high, before it is pasted into the image.
    return Recipe(detector, [torch.rand(3, 64, 64)], options={"bound": ["5776"]})


class YoloV5(nn.Module):
    """Focus, CSP blocks, spatial pyramid pooling and anchors; optionally with suppression."""

    def __init__(self, suppress):
        super().__init__()
        block = lambda a, b, k=1, s=1: nn.Sequential(
            nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU())
        self.suppress = suppress
        self.focus = block(12, 8, 3)
        self.down = nn.ModuleList([block(8, 16, 3, 2), block(16, 32, 3, 2)])
        self.left = nn.ModuleList([block(16, 8), block(32, 16)])
        self.right = nn.ModuleList([block(16, 8), block(32, 16)])
        self.inner = nn.ModuleList([block(8, 8, 3), block(16, 16, 3)])
        self.join = nn.ModuleList([block(16, 16), block(32, 32)])
        self.pyramid = block(128, 32)
        self.heads = nn.ModuleList([nn.Conv2d(16, 3 * 9, 1), nn.Conv2d(32, 3 * 9, 1)])
        self.register_buffer("anchors", torch.tensor([[[8, 10], [14, 20], [24, 18]], [[30, 40], [50, 42], [60, 60]]]).float())

    def csp(self, i, x):
        x = self.down[i](x)
        left = self.left[i](x)
        return self.join[i](torch.cat([left + self.inner[i](left), self.right[i](x)], 1))

    def decode(self, i, x, stride):
        size = x.shape[-1]
        y = x.view(x.shape[0], 3, 9, size, size).permute(0, 1, 3, 4, 2).sigmoid()
        at = torch.arange(size).float()
        grid = torch.stack(torch.meshgrid(at, at, indexing="xy"), -1)
        center = (y[..., :2] * 2 - 0.5 + grid) * stride
        sides = (y[..., 2:4] * 2) ** 2 * self.anchors[i].view(1, 3, 1, 1, 2)
        return torch.cat([center, sides, y[..., 4:]], -1).reshape(x.shape[0], -1, 9)

    def forward(self, x):
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        fine = self.csp(0, self.focus(torch.cat(parts, 1)))
        deep = self.csp(1, fine)
        deep = self.pyramid(torch.cat([deep] + [F.max_pool2d(deep, k, 1, k // 2) for k in (3, 5, 7)], 1))
        found = torch.cat([self.decode(0, self.heads[0](fine), 4), self.decode(1, self.heads[1](deep), 8)], 1)
        if not self.suppress:
            return found
        import torchvision

        boxes = torchvision.ops.box_convert(found[0, :, :4], "cxcywh", "xyxy")
        scores, labels = (found[0, :, 4:5] * found[0, :, 5:]).max(1)
        keep = torchvision.ops.nms(boxes, scores, 0.5)[:20]
        return boxes[keep], scores[keep], labels[keep]


@model
def detection_yolov5():
    return YoloV5(False), image(32)


@model
def detection_yolov5_suppressed():
    return YoloV5(True), image(32)


class CenterNet(nn.Module):
    """Peaks of a heat map, found by pooling, with boxes gathered at them."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.ReLU())
        self.heat, self.size = nn.Conv2d(16, 3, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        features = self.body(x)
        heat, size = self.heat(features).sigmoid(), self.size(features)
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
        scores, at = heat.flatten(1).topk(12)
        width, area = heat.shape[3], heat.shape[2] * heat.shape[3]
        label, at = at // area, at % area
        size = size.flatten(2).transpose(1, 2).gather(1, at.unsqueeze(-1).expand(-1, -1, 4))
        center = torch.stack([at % width, at // width], -1).float() + size[..., :2]
        return torch.cat([center - size[..., 2:] / 2, center + size[..., 2:] / 2], -1), scores, label


@model
def detection_centernet():
    return CenterNet(), image(32)


class Pose(nn.Module):
    """Key points as the expectation over heat maps."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.Hardswish(), nn.Conv2d(12, 24, 3, 2, 1), nn.Hardswish())
        self.heat = nn.Sequential(nn.ConvTranspose2d(24, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 5, 1))

    def forward(self, x):
        heat = self.heat(self.body(x))
        weight = heat.flatten(2).softmax(-1).view_as(heat)
        at = torch.linspace(0, 1, heat.shape[-1])
        across, down = (weight.sum(2) * at).sum(-1), (weight.sum(3) * at).sum(-1)
        best, index = heat.flatten(2).max(-1)
        return torch.stack([across, down], -1), best, index


@model
def detection_pose():
    return Pose(), image(32)

