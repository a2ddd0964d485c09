"""Architectures that torchvision, timm and transformers define, in small sizes."""

import torch
from torch import nn

from architectures import MODELS, image, model, tokens


def torchvision_model(name, size=64, **arguments):
    def make():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **arguments), image(size)

    MODELS[f"torchvision_{name}"] = make


for name in ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "squeezenet1_1", "densenet121"):
    torchvision_model(name, num_classes=10)
for name in ("shufflenet_v2_x0_5", "regnet_y_400mf", "mnasnet0_5", "convnext_tiny", "swin_t", "swin_v2_t"):
    torchvision_model(name, num_classes=10)
torchvision_model("googlenet", num_classes=10, aux_logits=False, init_weights=False)
torchvision_model("inception_v3", 96, num_classes=10, aux_logits=False, init_weights=False)
torchvision_model("deeplabv3_mobilenet_v3_large", num_classes=5, weights_backbone=None)
torchvision_model("lraspp_mobilenet_v3_large", num_classes=5, weights_backbone=None)


def timm_model(name, size=64, **arguments):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **arguments), image(size)

    MODELS[f"timm_{name}"] = make


timm_model("mobilevit_xxs")
timm_model("levit_128s", 224)
timm_model("ghostnet_100")
timm_model("repvgg_a0")
timm_model("hrnet_w18_small")
timm_model("poolformer_s12")
timm_model("edgenext_xx_small")
timm_model("efficientvit_b0")
timm_model("mixer_s32_224", 224)
timm_model("deit_tiny_patch16_224", img_size=64)
timm_model("eva02_tiny_patch14_224", 56, img_size=56)
timm_model("xcit_nano_12_p16_224", img_size=64)
timm_model("nf_resnet26")
timm_model("convmixer_768_32", 64)
timm_model("fastvit_t8")
timm_model("res2net50_14w_8s")


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}


def encoder(name, **arguments):
    """An encoder of transformers on tokens and their mask."""

    def make():
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**SMALL, **arguments})
        module = getattr(transformers, f"{name}Model")(config)
        mask = torch.ones(2, 12, dtype=torch.long)
        mask[1, 8:] = 0
        return Keywords(module, ["input_ids", "attention_mask"], "last_hidden_state"), [tokens(batch=2), mask]

    MODELS[f"transformers_{name.lower()}"] = make


def decoder(name, **arguments):
    """A language model of transformers on tokens."""

    def make():
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**SMALL, "use_cache": False, **arguments})
        module = getattr(transformers, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(config)
        mask = torch.ones(1, 12, dtype=torch.long)
        return Keywords(module, ["input_ids", "attention_mask"], "logits"), [tokens(), mask]

    MODELS[f"transformers_{name.lower()}"] = make


class Keywords(nn.Module):
    """Passes tensors by name and takes one output."""

    def __init__(self, module, names, output, **constant):
        super().__init__()
        self.module, self.names, self.output, self.constant = module, names, output, constant

    def forward(self, *inputs):
        return getattr(self.module(**dict(zip(self.names, inputs)), **self.constant), self.output)


encoder("Bert")
encoder("Roberta")
encoder("Electra", embedding_size=16)
encoder("Albert", embedding_size=16)
encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, type_vocab_size=0)
encoder("MPNet")
encoder("ModernBert", pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
decoder("GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=64)
decoder("GPTNeoX", rotary_pct=0.5)
decoder("OPT", ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64)
decoder("Bloom", n_layer=2, n_head=4)
decoder("Falcon", multi_query=True, alibi=False)
decoder("Llama", num_key_value_heads=2, max_position_embeddings=64)
decoder("Mistral", num_key_value_heads=2, sliding_window=4, max_position_embeddings=64)
decoder("Qwen2", num_key_value_heads=2, max_position_embeddings=64)
decoder("Gemma", num_key_value_heads=2, head_dim=8, max_position_embeddings=64)
decoder("Phi", max_position_embeddings=64)
decoder("Mixtral", num_key_value_heads=2, num_local_experts=4, max_position_embeddings=64)
decoder("Mamba", state_size=8)


@model
def transformers_t5():
    import transformers

    config = transformers.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    config.use_cache = False
    module = transformers.T5ForConditionalGeneration(config)
    return Keywords(module, ["input_ids", "decoder_input_ids"], "logits"), [tokens(), tokens(6)]


@model
def transformers_bart():
    import transformers

    sizes = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in
             (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))}
    config = transformers.BartConfig(vocab_size=100, d_model=32, max_position_embeddings=64, use_cache=False, **sizes)
    module = transformers.BartForConditionalGeneration(config)
    return Keywords(module, ["input_ids", "decoder_input_ids"], "logits"), [tokens(), tokens(6)]


@model
def transformers_whisper_encoder():
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=16,
        max_source_positions=20, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    module = transformers.WhisperModel(config).encoder
    return Keywords(module, ["input_features"], "last_hidden_state"), [torch.randn(1, 16, 40)]


@model
def transformers_wav2vec2():
    import transformers

    config = transformers.Wav2Vec2Config(
        **SMALL, conv_dim=(16, 16, 16), conv_stride=(5, 4, 2), conv_kernel=(10, 8, 4), num_feat_extract_layers=3,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4)
    return Keywords(transformers.Wav2Vec2Model(config), ["input_values"], "last_hidden_state"), [torch.randn(1, 2000)]


@model
def transformers_clip():
    import transformers

    text = {**SMALL, "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1}
    vision = {**SMALL, "image_size": 32, "patch_size": 8}
    vision.pop("vocab_size")
    module = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    names = ["input_ids", "pixel_values"]
    return Keywords(module, names, "logits_per_image"), [tokens(8, batch=2), *image(32)]


@model
def transformers_segformer():
    import transformers

    config = transformers.SegformerConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], decoder_hidden_size=32)
    return Keywords(transformers.SegformerForSemanticSegmentation(config), ["pixel_values"], "logits"), image(64)


@model
def transformers_detr():
    import transformers

    backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
                                         out_features=["stage4"])
    config = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32,
        num_queries=10, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64)
    return Keywords(transformers.DetrForObjectDetection(config), ["pixel_values"], "pred_boxes"), image(64)


@model
def transformers_yolos():
    import transformers

    config = transformers.YolosConfig(**{k: v for k, v in SMALL.items() if k != "vocab_size"}, image_size=[32, 32],
                                      patch_size=8, num_detection_tokens=5)
    return Keywords(transformers.YolosForObjectDetection(config), ["pixel_values"], "pred_boxes"), image(32)
