"""Further networks of transformers, small and with random weights: FOLDER/*.xml.

Needs torch, torchvision, transformers and openvino: python transformers_networks.py FOLDER [NAME...]
"""

import torch
import torchvision
import transformers as T
import transformers.masking_utils as masking
from converted import Named, Segmentation, save

# The converter has no rule for the difference by which packed sequences are found; there are none here.
masking.find_packed_sequence_indices = lambda positions: None
T.logging.set_verbosity_error()

TOKENS = [torch.zeros(1, 64, dtype=torch.long)]
SAMPLES = [torch.zeros(1, 8000)]
FRAMES = [torch.zeros(1, 8, 3, 112, 112)]
SIZES = dict(num_hidden_layers=4, num_attention_heads=3)
VISION = dict(SIZES, hidden_size=192, intermediate_size=768)
SPEECH = dict(VISION, conv_dim=[64] * 7)
TEXT = dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=1024, vocab_size=1000)
GPT = dict(n_embd=256, n_layer=3, n_head=4, vocab_size=1000, use_cache=False)
DECODER = dict(TEXT, num_key_value_heads=2, pad_token_id=0, use_cache=False)
OPT = dict(
    hidden_size=256, num_hidden_layers=3, num_attention_heads=4, ffn_dim=1024, word_embed_proj_dim=256, vocab_size=1000
)
MAMBA = dict(hidden_size=128, num_hidden_layers=2, num_heads=8, head_dim=32, chunk_size=32, n_groups=1, state_size=32)


def images(size=224):
    return [torch.zeros(1, 3, size, size)]


def network(name, model, settings, names, inputs, result=0):
    """`model` is the class without "Model", or all of it."""
    kinds = ("Model", "ForDepthEstimation", "ForSemanticSegmentation", "ForImageSuperResolution")
    base = next((model.removesuffix(kind) for kind in kinds if model.endswith(kind)), model)
    whole = model if base != model or not hasattr(T, f"{model}Model") else f"{model}Model"
    save(
        name, lambda: Named(getattr(T, whole)(getattr(T, f"{base}Config")(**settings)), names.split(), result), *inputs
    )


def dino():
    return T.Dinov2Config(
        hidden_size=192,
        image_size=224,
        out_indices=[1, 2, 3, 4],
        reshape_hidden_states=False,
        apply_layernorm=True,
        **SIZES,
    )


def convnext():
    return T.ConvNextConfig(
        depths=[1, 1, 2, 1], hidden_sizes=[32, 64, 128, 256], out_features=["stage1", "stage2", "stage3", "stage4"]
    )


PIXELS = {
    "yolos": ("Yolos", dict(VISION, image_size=[256, 256]), images(256)),
    "dpt": (
        "DPTForDepthEstimation",
        dict(VISION, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[24, 48, 96, 192], fusion_hidden_size=64),
        images(),
    ),
    "glpn": ("GLPNForDepthEstimation", dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 80, 128]), images()),
    "vitdet": (
        "VitDet",
        dict(
            SIZES, hidden_size=192, image_size=224, pretrain_image_size=224, window_block_indices=[0, 2], window_size=7
        ),
        images(),
    ),
    "videomae": ("VideoMAE", dict(VISION, image_size=112, num_frames=8), FRAMES),
    "timesformer": ("Timesformer", dict(VISION, image_size=112, num_frames=8), FRAMES),
    "swin2sr": (
        "Swin2SRForImageSuperResolution",
        dict(image_size=64, embed_dim=60, depths=[2, 2], num_heads=[6, 6], window_size=8),
        images(64),
    ),
    "swiftformer": ("SwiftFormer", {}, images()),
    "mobilevit_segmentation": ("MobileViTForSemanticSegmentation", dict(image_size=256), images(256)),
    "upernet": (
        "UperNetForSemanticSegmentation",
        dict(backbone_config=convnext(), hidden_size=64, auxiliary_in_channels=128, auxiliary_channels=32),
        images(),
    ),
    "segformer": ("SegformerForSemanticSegmentation", {}, images(256)),
    "dinov2": ("Dinov2", dict(SIZES, hidden_size=192, image_size=224), images()),
    "depth_anything": (
        "DepthAnythingForDepthEstimation",
        dict(
            backbone_config=dino(),
            reassemble_hidden_size=192,
            neck_hidden_sizes=[24, 48, 96, 192],
            fusion_hidden_size=32,
        ),
        images(),
    ),
    "siglip_vision": ("SiglipVisionModel", dict(VISION, image_size=224), images()),
    "vitmae": ("ViTMAE", VISION, images()),
    "ijepa": ("IJepa", VISION, images()),
    "cvt": ("Cvt", dict(depth=[1, 2, 4]), images()),
    "focalnet": ("FocalNet", dict(depths=[1, 1, 2, 1], embed_dim=64), images()),
    "pvt": ("Pvt", dict(depths=[1, 1, 2, 1], image_size=224), images()),
}
for name, (model, settings, inputs) in PIXELS.items():
    network(name, model, settings, "pixel_values", inputs)

network("ast", "AST", dict(VISION, max_length=256, num_mel_bins=128), "input_values", [torch.zeros(1, 256, 128)])
for name in ("Hubert", "WavLM", "Wav2Vec2Conformer", "UniSpeech"):
    network(name.lower(), name, SPEECH, "input_values", SAMPLES)
network("sew", "SEW", VISION, "input_values", SAMPLES)
network(
    "univnet", "UnivNetModel", {}, "input_features noise_sequence", [torch.zeros(1, 30, 100), torch.zeros(1, 30, 64)]
)
network(
    "dac", "Dac", dict(encoder_hidden_size=16, decoder_hidden_size=256), "input_values", [torch.zeros(1, 1, 4096)], 1
)
network("hifigan", "SpeechT5HifiGan", dict(upsample_initial_channel=128), "spectrogram", [torch.zeros(1, 32, 80)])
network(
    "clap_audio",
    "ClapAudioModel",
    dict(depths=[1, 1, 2, 1], patch_embeds_hidden_size=48),
    "input_features is_longer",
    [torch.zeros(1, 1, 1001, 64), torch.zeros(1, 1, dtype=torch.bool)],
)

ENCODERS = {name: TEXT for name in "Ernie Camembert IBert XLMRoberta Data2VecText Splinter RoCBert".split()}
ENCODERS["ModernBert"] = dict(TEXT, pad_token_id=0)
ENCODERS["BigBird"] = dict(TEXT, attention_type="original_full")
ENCODERS["Esm"] = dict(TEXT, position_embedding_type="rotary", pad_token_id=1, mask_token_id=2)
DECODERS = {name: DECODER for name in "Olmo Nemotron Lfm2 SmolLM3 Exaone4".split()}
DECODERS |= {name: dict(DECODER, head_dim=64) for name in ("Glm", "SeedOss")}
DECODERS |= {"Persimmon": dict(TEXT, pad_token_id=0, use_cache=False), "BioGpt": dict(TEXT, use_cache=False)}
DECODERS |= {"OPT": dict(OPT, use_cache=False), "CodeGen": dict(GPT, rotary_dim=32), "GPTBigCode": GPT}
DECODERS["Mpt"] = dict(d_model=256, n_heads=4, n_layers=3, vocab_size=1000, use_cache=False)
DECODERS["Mamba2"] = dict(MAMBA, vocab_size=1000, use_cache=False)
DECODERS["RecurrentGemma"] = dict(DECODER, lru_width=256, attention_window_size=32)
for name, settings in (ENCODERS | DECODERS).items():
    network(name.lower(), name, settings, "input_ids", TOKENS)
network("canine", "Canine", dict(VISION, num_hidden_layers=3), "input_ids", [torch.zeros(1, 256, dtype=torch.long)])


lraspp = lambda: torchvision.models.get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None)
save("lraspp", lambda: Segmentation(lraspp()), *images(256))
