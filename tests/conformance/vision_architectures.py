"""Vision models of torchvision, timm and transformers beyond classification of fixed images, narrow and shallow."""

import torch
from torch import nn
from torch.nn import functional as F

from architectures import MODELS, image, model, tokens
from library_architectures import SMALL, Keywords, timm_model
from recipes import Recipe

VISION = {key: value for key, value in SMALL.items() if key != "vocab_size"}

timm_model("swin_tiny_patch4_window7_224", 56, img_size=56, embed_dim=16, depths=(2, 2), num_heads=(2, 4))
timm_model("swinv2_tiny_window8_256", img_size=64, embed_dim=16, depths=(2, 2), num_heads=(2, 4))
timm_model("convnextv2_atto", depths=(1, 1, 2, 1), dims=(8, 16, 24, 32))
timm_model("maxxvit_rmlp_nano_rw_256", 64, img_size=64)
timm_model("coat_lite_tiny", 64, img_size=64)
timm_model("pvt_v2_b0")
timm_model("cait_xxs24_224", img_size=64, depth=2, embed_dim=48)
timm_model("crossvit_tiny_240", 240)
timm_model("volo_d1_224", 64, img_size=64)
timm_model("visformer_tiny", img_size=64)
timm_model("twins_pcpvt_small", 64, img_size=64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 40, 64))
timm_model("gcvit_xxtiny", 224)
timm_model("mobileone_s0")
timm_model("mobilenetv4_conv_small")
timm_model("tinynet_e")
timm_model("dla46_c")
timm_model("dpn48b")
timm_model("vovnet39a")
timm_model("cspresnet50")
timm_model("skresnet18")
timm_model("resnest14d")
timm_model("gmlp_ti16_224", 224)
timm_model("resmlp_12_224", 224)
timm_model("efficientformer_l1", 224)
timm_model("tiny_vit_5m_224", 224, depths=(1, 1, 1, 1))
timm_model("repvit_m0_9")
timm_model("starnet_s1")
timm_model("beit_base_patch16_224", 64, img_size=64, depth=2, embed_dim=48, num_heads=4)


def seen(name, suffix="Model", size=32, names=("pixel_values",), output="last_hidden_state", config=None, **arguments):
    """A vision model of transformers."""

    def make():
        import transformers

        settings = {**VISION, "image_size": size, "patch_size": 8, **arguments} if config is None else config(transformers)
        settings = getattr(transformers, f"{name}Config")(**settings) if isinstance(settings, dict) else settings
        module = getattr(transformers, f"{name}{suffix}")(settings)
        return Keywords(module, list(names), output), image(size)

    MODELS[f"transformers_{name.lower()}"] = make


seen("ViT")
seen("Dinov2")
seen("Beit", use_relative_position_bias=True, use_mask_token=False)
seen("PoolFormer", size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
seen("Pvt", size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4],
     patch_sizes=[4, 2, 2, 2], num_encoder_blocks=4, sequence_reduction_ratios=[4, 2, 2, 1])
seen("Cvt", config=lambda t: t.CvtConfig(embed_dim=[8, 16, 24], num_heads=[1, 2, 3], depth=[1, 2, 3]), size=64)
seen("Swin2SR", "ForImageSuperResolution", output="reconstruction",
     config=lambda t: t.Swin2SRConfig(image_size=32, embed_dim=12, depths=[2], num_heads=[2], window_size=8, upscale=2))
seen("MobileViTV2", size=64, config=lambda t: t.MobileViTV2Config(image_size=64, width_multiplier=0.25))
seen("GLPN", "ForDepthEstimation", 64, output="predicted_depth", config=lambda t: t.GLPNConfig(
    hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16))
seen("DPT", "ForDepthEstimation", 64, output="predicted_depth", config=lambda t: t.DPTConfig(
    hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, image_size=64, patch_size=16,
    backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16))


@model
def transformers_vitmae():
    """Patches in the order of noise, of which the last ones are left out."""
    import transformers

    module = transformers.ViTMAEModel(transformers.ViTMAEConfig(**VISION, image_size=32, patch_size=8))
    return Keywords(module, ["pixel_values", "noise"], "last_hidden_state"), [*image(32), torch.rand(1, 16)]


@model
def transformers_depthanything():
    import transformers

    body = transformers.Dinov2Config(**VISION, image_size=28, patch_size=14, out_features=["stage1", "stage2"],
                                     reshape_hidden_states=False, apply_layernorm=True)
    config = transformers.DepthAnythingConfig(
        backbone_config=body, reassemble_hidden_size=32, patch_size=14, neck_hidden_sizes=[8, 16],
        reassemble_factors=[2, 1], fusion_hidden_size=16, head_in_index=-1, head_hidden_size=8)
    return Keywords(transformers.DepthAnythingForDepthEstimation(config), ["pixel_values"], "predicted_depth"), image(56)


def small_resnet(transformers):
    return transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
                                     out_features=["stage2", "stage3", "stage4"])


@model
def transformers_rtdetr():
    import transformers

    body = transformers.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
                                           layer_type="basic", out_features=["stage2", "stage3", "stage4"])
    config = transformers.RTDetrConfig(
        backbone_config=body, encoder_hidden_dim=16, encoder_in_channels=[16, 16, 32], encoder_ffn_dim=32,
        encoder_attention_heads=4, d_model=16, num_queries=12, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=32,
        decoder_layers=2, decoder_attention_heads=4, num_labels=4, anchor_image_size=None, eval_size=None)
    return Keywords(transformers.RTDetrForObjectDetection(config), ["pixel_values"], "pred_boxes"), image(64)


@model
def transformers_deformable_detr():
    import transformers

    config = transformers.DeformableDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=small_resnet(transformers),
        d_model=32, num_queries=8, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_feature_levels=3)
    return Keywords(transformers.DeformableDetrForObjectDetection(config), ["pixel_values"], "pred_boxes"), image(64)


@model
def transformers_conditional_detr():
    import transformers

    config = transformers.ConditionalDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=small_resnet(transformers),
        d_model=32, num_queries=8, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32)
    return Keywords(transformers.ConditionalDetrForObjectDetection(config), ["pixel_values"], "pred_boxes"), image(64)


@model
def transformers_maskformer():
    import transformers

    body = transformers.SwinConfig(image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4,
                                   out_features=["stage1", "stage2", "stage3", "stage4"])
    head = transformers.DetrConfig(d_model=16, num_queries=6, encoder_layers=0, decoder_layers=2, decoder_attention_heads=2,
                                   decoder_ffn_dim=32, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
                                   backbone_config=small_resnet(transformers))
    config = transformers.MaskFormerConfig(backbone_config=body, decoder_config=head, fpn_feature_size=32, mask_feature_size=16)
    names = ["pixel_values"]
    return Keywords(transformers.MaskFormerForInstanceSegmentation(config), names, "masks_queries_logits"), image(64)


@model
def transformers_siglip():
    import transformers

    text, vision = {**SMALL, "max_position_embeddings": 8}, {**VISION, "image_size": 32, "patch_size": 8}
    module = transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=vision))
    return Keywords(module, ["input_ids", "pixel_values"], "logits_per_image"), [tokens(8, batch=2), *image(32)]


@model
def transformers_blip():
    import transformers

    text = {**SMALL, "encoder_hidden_size": 32, "projection_dim": 16, "max_position_embeddings": 16, "use_cache": False}
    vision = {**VISION, "image_size": 32, "patch_size": 8}
    config = transformers.BlipConfig(text_config=text, vision_config=vision, projection_dim=16)
    module = transformers.BlipForConditionalGeneration(config)
    return Keywords(module, ["pixel_values", "input_ids"], "logits"), [*image(32), tokens(6)]


@model
def transformers_vilt():
    import transformers

    module = transformers.ViltModel(transformers.ViltConfig(**SMALL, image_size=32, patch_size=8, max_image_length=-1))
    return Keywords(module, ["input_ids", "pixel_values"], "last_hidden_state"), [tokens(6), *image(32)]


@model
def transformers_sam_encoder():
    import transformers

    config = transformers.SamVisionConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=64, patch_size=8, window_size=3,
        global_attn_indexes=[1], output_channels=16, mlp_dim=64)
    return Keywords(transformers.SamVisionModel(config), ["pixel_values"], "last_hidden_state"), image(64)


@model
def transformers_videomae():
    import transformers

    config = transformers.VideoMAEConfig(**VISION, image_size=16, patch_size=8, num_frames=4)
    return Keywords(transformers.VideoMAEModel(config), ["pixel_values"], "last_hidden_state"), [torch.randn(1, 4, 3, 16, 16)]


class Style(nn.Module):
    """Style transfer: reflection padding, instance normalisation, residual blocks, growing by neighbours."""

    def __init__(self):
        super().__init__()
        layer = lambda a, b, k, s=1: [nn.ReflectionPad2d(k // 2), nn.Conv2d(a, b, k, s), nn.InstanceNorm2d(b, affine=True)]
        self.down = nn.Sequential(*layer(3, 8, 5), nn.ReLU(), *layer(8, 16, 3, 2), nn.ReLU())
        self.inner = nn.ModuleList(nn.Sequential(*layer(16, 16, 3), nn.ReLU(), *layer(16, 16, 3)) for _ in range(2))
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), *layer(16, 8, 3), nn.ReLU(), nn.Conv2d(8, 3, 1))

    def forward(self, x):
        x = self.down(x)
        for inner in self.inner:
            x = x + inner(x)
        return self.up(x)


@model
def own_style_transfer():
    return Style(), image(32)


@model
def dynamic_style_transfer():
    return Recipe(Style(), image(16), shapes={0: "1..2,3,8..32,8..32"}, runs=[image(16), [torch.rand(2, 3, 12, 20)]])


class Autoencoder(nn.Module):
    """Pooling that remembers where its maxima were is left out; codes of a vector quantiser are not."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.GELU(), nn.Conv2d(8, 6, 4, 2, 1))
        self.codes = nn.Parameter(torch.randn(16, 6))
        self.decode = nn.Sequential(nn.ConvTranspose2d(6, 8, 4, 2, 1), nn.GELU(), nn.Upsample(scale_factor=2, mode="bilinear"),
                                    nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, x):
        hidden = self.encode(x).permute(0, 2, 3, 1)
        nearest = torch.cdist(hidden.reshape(-1, 6), self.codes).argmin(-1)
        chosen = self.codes[nearest].view(hidden.shape).permute(0, 3, 1, 2)
        return self.decode(chosen), nearest


@model
def own_vector_quantiser():
    return Autoencoder(), image(32)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda a, b, s=1, g=1: nn.Sequential(
            nn.Conv2d(a, b, 3, s, 1, groups=g, bias=False), nn.BatchNorm2d(b), nn.ReLU6())
        self.layers = nn.Sequential(layer(3, 8, 2), layer(8, 16), layer(16, 16, 2, 16), layer(16, 24))
        self.inner, self.head = layer(24, 24), nn.Linear(24, 10)

    def forward(self, x):
        x = self.layers(x)
        x = x + self.inner(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


@model
def quantised_classifier():
    return Recipe(Classifier(), image(32), quantised=True)


@model
def quantised_bert():
    import transformers

    module = transformers.BertModel(transformers.BertConfig(**SMALL, attn_implementation="eager"))
    names = ["input_ids", "attention_mask"]
    return Recipe(Keywords(module, names, "last_hidden_state"), [tokens(), torch.ones(1, 12, dtype=torch.long)], quantised=True)


@model
def dynamic_classifier():
    """Batch and size of the image known at run time."""
    return Recipe(Classifier(), image(32), shapes={0: "1..4,3,16..40,16..40"},
                  runs=[image(32), [torch.rand(4, 3, 40, 24)], [torch.rand(1, 3, 17, 16)]])


@model
def onnx_classifier():
    return Recipe(Classifier(), image(32, batch=2), onnx=True)


@model
def onnx_vit():
    import transformers

    module = transformers.ViTModel(transformers.ViTConfig(**VISION, image_size=32, patch_size=8))
    return Recipe(Keywords(module, ["pixel_values"], "last_hidden_state"), image(32), onnx=True)
