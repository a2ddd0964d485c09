"""Further networks of torchvision, timm and transformers, and small ones of other kinds: FOLDER/*.xml.

Needs torch, torchvision, timm, transformers and openvino: python more.py FOLDER [NAME...]
"""

import timm
import torch
import torch.nn as nn
import torchvision
import transformers as T
import transformers.masking_utils as masking
from converted import Named, Segmentation, save
from more_networks import NETWORKS

# The converter has no rule for the difference by which packed sequences are found; there are none here.
masking.find_packed_sequence_indices = lambda positions: None
T.logging.set_verbosity_error()

VIDEOS = "r3d_18 mc3_18 r2plus1d_18"
IMAGES = """
    alexnet vgg16 vit_b_32 maxvit_t efficientnet_v2_s regnet_x_400mf shufflenet_v2_x0_5 shufflenet_v2_x2_0 mnasnet0_5
    convnext_small resnext101_32x8d wide_resnet50_2 squeezenet1_0 mobilenet_v3_small densenet169
"""
TIMM = """
    bat_resnext26ts beitv2_base_patch16_224 caformer_s18 cait_xs24_384 coatnet_nano_rw_224 coatnext_nano_rw_224 convformer_s18
    convmixer_1024_20_ks9_p14 convnext_atto_ols convnextv2_femto crossvit_9_240 cs3se_edgenet_x cs3sedarknet_l csatv2 cspdarknet53
    darknet53 davit_small densenet161 dla46_c dla60_res2net dpn48b eca_botnext26ts_256 eca_nfnet_l0 ecaresnetlight
    edgenext_x_small efficientformerv2_s0 efficientmod_xxs efficientnet_b1_pruned efficientnet_cc_b0_4e efficientnet_es
    efficientvit_l1 ese_vovnet19b_dw fasternet_t0 fbnetv3_b focalnet_tiny_lrf gcresnet33ts gernet_m ghostnetv3_100 gmixer_24_224
    haloregnetz_b hardcorenas_c hgnetv2_b0 hiera_small_224 hrnet_w18_ssld inception_resnet_v2 inception_v4 lambda_resnet26t
    lamhalobotnet50ts_256 lcnet_075 lcnet_100 legacy_seresnet18 levit_conv_128s mambaout_tiny maxxvit_rmlp_nano_rw_256 mixnet_m
    mobilenet_edgetpu_v2_xs mobilenetv1_100 mobilenetv2_050 mobilenetv3_rw mobilenetv3_small_075 mobilenetv4_hybrid_medium
    mobilenetv5_300m mobileone_s1 mobilevit_xs mobilevitv2_075 nextvit_base nf_regnet_b0 pit_s_distilled_224 pnasnet5large
    poolformerv2_s12 pvt_v2_b1 rdnet_tiny regnetv_040 regnetx_004 regnety_002 regnety_004 repvgg_b0 repvit_m1 resmlp_24_224
    resnet10t resnet14t resnet26 resnet50d resnetblur50 resnetrs50 resnext26ts rexnetr_200 samvit_base_patch16_224 sebotnet33ts_256
    selecsls60 semnasnet_100 sequencer2d_m seresnext26d_32x4d shvit_s2 skresnext50_32x4d starnet_s2 swiftformer_xs
    swinv2_tiny_window8_256 test_byobnet test_convnext test_efficientnet test_efficientnet_gn test_mambaout test_nfnet test_resnet
    test_vit test_vit2 test_vit3 test_vit4 tf_efficientnet_b0 tf_efficientnetv2_b0 tiny_vit_11m_224 tinynet_e
    tnt_s_legacy_patch16_224 tresnet_l twins_svt_small visformer_small vit_relpos_small_patch16_224 vit_small_patch16_dinov3
    vit_tiny_r_s16_p8_224 vit_xsmall_patch16_clip_224 vitamin_small_224 wide_resnet50_2 xcit_tiny_12_p16_224
"""


for name, (make, inputs) in NETWORKS.items():
    save(name, make, *inputs)
for name in IMAGES.split():
    save(f"tv_{name}", lambda: torchvision.models.get_model(name, weights=None), torch.zeros(1, 3, 224, 224))
for name in VIDEOS.split():
    save(f"tv_{name}", lambda: torchvision.models.get_model(name, weights=None), torch.zeros(1, 3, 16, 112, 112))
for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50"):
    model = lambda: torchvision.models.get_model(name, weights=None, weights_backbone=None)
    save(f"tv_{name}", lambda: Segmentation(model()), torch.zeros(1, 3, 256, 256))
for name in TIMM.split():
    settings = timm.get_pretrained_cfg(name)
    size = min(settings.input_size[-1], 384) if settings else 224
    save(f"timm_{name}", lambda: timm.create_model(name, pretrained=False), torch.zeros(1, 3, size, size))

TOKENS = torch.zeros(1, 64, dtype=torch.long)
BASE = dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=1024, vocab_size=1000)
FEW_KEYS = dict(BASE, num_key_value_heads=2, attn_implementation="eager", pad_token_id=0)
GPT = dict(n_embd=256, n_layer=3, n_head=4, vocab_size=1000)
DECODERS = {
    "GPT2": GPT,
    "GPTJ": dict(GPT, rotary_dim=32),
    "GPTNeoX": BASE,
    "Bloom": dict(hidden_size=256, n_layer=3, n_head=4, vocab_size=1000),
    "Falcon": dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, vocab_size=1000),
    "Mamba": dict(hidden_size=128, num_hidden_layers=2, vocab_size=1000),
    "Qwen3": dict(FEW_KEYS, head_dim=64),
    "Gemma": dict(FEW_KEYS, head_dim=64),
    "Gemma2": dict(FEW_KEYS, head_dim=64),
    "Gemma3Text": dict(FEW_KEYS, head_dim=64),
    **{name: FEW_KEYS for name in "Mistral Qwen2 Phi Phi3 StableLm Olmo2 Cohere Granite Starcoder2".split()},
}
ENCODERS = {
    "FNet": dict(hidden_size=256, num_hidden_layers=3, intermediate_size=1024, vocab_size=1000),
    "XLNet": dict(d_model=256, n_layer=2, n_head=4, d_inner=1024, vocab_size=1000),
    "Yoso": dict(BASE, use_expectation=True),
    **{name: BASE for name in "Roberta Electra MPNet ConvBert Nystromformer RoFormer LayoutLM MegatronBert RemBert".split()},
}
for name, settings in DECODERS.items():
    net = lambda: getattr(T, f"{name}Model")(getattr(T, f"{name}Config")(**settings, use_cache=False))
    save(f"tr_{name.lower()}", lambda: Named(net(), ["input_ids"]), TOKENS)
for name, settings in ENCODERS.items():
    net = lambda: getattr(T, f"{name}Model")(getattr(T, f"{name}Config")(**settings))
    save(f"tr_{name.lower()}", lambda: Named(net(), ["input_ids"]), TOKENS)
save("tr_bit", lambda: Named(T.BitModel(T.BitConfig(depths=[1, 1, 1, 1])), ["pixel_values"]), torch.zeros(1, 3, 224, 224))
save("tr_encodec", lambda: Named(T.EncodecModel(T.EncodecConfig()), ["input_values"]), torch.zeros(1, 1, 4800))


def lenet():
    pixels = [
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
    ]
    classes = [nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)]
    return nn.Sequential(*pixels, *classes)


save("lenet", lenet, torch.zeros(1, 1, 28, 28))
save("lenet_b16", lenet, torch.zeros(16, 1, 28, 28))
