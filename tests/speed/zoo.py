"""Networks of torchvision, timm and transformers, and small ones of other kinds, with random weights: FOLDER/*.xml.

Needs torch, torchvision, timm, transformers and openvino: python zoo.py FOLDER [NAME...]
"""

import timm
import torch
import torch.nn as nn
import torchvision
import transformers as T
from converted import save

TORCHVISION = """
    resnet18 vgg11 squeezenet1_1 googlenet regnet_y_400mf mnasnet1_0 inception_v3 resnext50_32x4d
"""
TIMM = """
    beit_base_patch16_224 botnet26t_256 cait_xxs24_224 coat_tiny convmixer_768_32 convnextv2_atto crossvit_tiny_240
    cs3darknet_s cspresnet50 davit_tiny deit3_small_patch16_224 dla34 dm_nfnet_f0 dpn68 ecaresnet26t
    edgenext_xx_small efficientformer_l1 efficientnet_lite0 efficientnetv2_rw_t efficientvit_b0 efficientvit_m0
    eva02_tiny_patch14_224 fastvit_t8 fbnetc_100 focalnet_tiny_srf gcvit_xxtiny gernet_s ghostnet_100 ghostnetv2_100
    gmlp_s16_224 halonet26t hardcorenas_a hgnet_tiny hiera_tiny_224 hrnet_w18_small hrnet_w18_small_v2
    inception_next_atto lcnet_050 levit_128s mambaout_femto maxvit_tiny_rw_224 mixer_s32_224 mixnet_s
    mobilenetv2_035 mobilenetv3_small_050 mobilenetv4_conv_small mobileone_s0 mobilevit_xxs mobilevitv2_050
    mvitv2_tiny nest_tiny nextvit_small nfnet_l0 pit_ti_224 poolformer_s12 pvt_v2_b0 regnetx_002 regnetz_b16
    repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_14w_8s resmlp_12_224 resnest14d resnetaa50 resnetv2_50
    rexnet_100 selecsls42b semnasnet_075 sequencer2d_s seresnet50 shvit_s1 skresnet18 spnasnet_100 starnet_s1
    swinv2_cr_tiny_224 tf_efficientnet_lite0 tf_mobilenetv3_large_minimal_100 tiny_vit_5m_224 tinynet_a tresnet_m
    twins_pcpvt_small visformer_tiny volo_d1_224 vovnet39a xception41 xcit_nano_12_p16_224
"""


for name in TORCHVISION.split():
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    size = 299 if name == "inception_v3" else 224
    save(name, lambda: getattr(torchvision.models, name)(weights=None, **more), torch.zeros(1, 3, size, size))
for name in TIMM.split():
    size = timm.get_pretrained_cfg(name).input_size[-1]
    save(name, lambda: timm.create_model(name, pretrained=False), torch.zeros(1, 3, size, size))


class TCN(nn.Module):
    def __init__(s):
        super().__init__()
        L = []
        c = 25
        for i in range(6):
            L += [nn.Conv1d(c, 64, 3, padding=2**i, dilation=2**i), nn.ReLU()]
            c = 64
        s.n = nn.Sequential(*L, nn.Conv1d(64, 10, 1))

    def forward(s, x):
        return s.n(x)


save("tcn", TCN, torch.zeros(1, 25, 400))


class ESPCN(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(
            nn.Conv2d(1, 64, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, 9, 3, padding=1),
            nn.PixelShuffle(3),
        )

    def forward(s, x):
        return s.n(x)


save("espcn", ESPCN, torch.zeros(1, 1, 128, 128))


class EDSR(nn.Module):
    def __init__(s):
        super().__init__()
        s.h = nn.Conv2d(3, 32, 3, padding=1)
        s.b = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1))
                for _ in range(4)
            ]
        )
        s.t = nn.Sequential(nn.Conv2d(32, 128, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(32, 3, 3, padding=1))

    def forward(s, x):
        x = s.h(x)
        y = x
        for b in s.b:
            y = y + b(y)
        return s.t(x + y)


save("edsr", EDSR, torch.zeros(1, 3, 96, 96))


class KWS(nn.Module):
    def __init__(s):
        super().__init__()
        L = [nn.Conv2d(1, 64, (10, 4), stride=2, padding=(5, 1)), nn.BatchNorm2d(64), nn.ReLU()]
        for _ in range(4):
            L += [
                nn.Conv2d(64, 64, 3, padding=1, groups=64),
                nn.BatchNorm2d(64),
                nn.ReLU(),
                nn.Conv2d(64, 64, 1),
                nn.BatchNorm2d(64),
                nn.ReLU(),
            ]
        s.n = nn.Sequential(*L, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))

    def forward(s, x):
        return s.n(x)


save("kws", KWS, torch.zeros(1, 1, 49, 10))


class AE(nn.Module):
    def __init__(s):
        super().__init__()
        d = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
        s.n = nn.Sequential(*[m for i in range(10) for m in (nn.Linear(d[i], d[i + 1]), nn.ReLU())][:-1])

    def forward(s, x):
        return s.n(x)


save("ae", AE, torch.zeros(1, 640))


class BiLSTM(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.LSTM(80, 128, 2, bidirectional=True, batch_first=True)
        s.o = nn.Linear(256, 40)

    def forward(s, x):
        return s.o(s.l(x)[0])


save("bilstm", BiLSTM, torch.zeros(1, 100, 80))


class GRU1(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.GRU(64, 256, 1, batch_first=True)
        s.o = nn.Linear(256, 10)

    def forward(s, x):
        return s.o(s.l(x)[0][:, -1])


save("gru1", GRU1, torch.zeros(1, 50, 64))


class C3D(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(
            nn.Conv3d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool3d((1, 2, 2)),
            nn.Conv3d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool3d(2),
            nn.Conv3d(64, 128, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(128, 10),
        )

    def forward(s, x):
        return s.n(x)


save("c3d", C3D, torch.zeros(1, 3, 8, 56, 56))


class DCGAN(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(
            nn.ConvTranspose2d(100, 256, 4, 1, 0),
            nn.BatchNorm2d(256),
            nn.ReLU(),
            nn.ConvTranspose2d(256, 128, 4, 2, 1),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.ConvTranspose2d(128, 64, 4, 2, 1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 3, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(s, x):
        return s.n(x)


save("dcgan", DCGAN, torch.zeros(1, 100, 1, 1))


class UNet3(nn.Module):
    def __init__(s):
        super().__init__()
        c = lambda i, o: nn.Sequential(
            nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01)
        )
        s.a = c(1, 16)
        s.b = c(16, 32)
        s.c = c(32, 64)
        s.u1 = nn.ConvTranspose3d(64, 32, 2, 2)
        s.d = c(64, 32)
        s.u2 = nn.ConvTranspose3d(32, 16, 2, 2)
        s.e = c(32, 16)
        s.o = nn.Conv3d(16, 2, 1)
        s.p = nn.MaxPool3d(2)

    def forward(s, x):
        a = s.a(x)
        b = s.b(s.p(a))
        c = s.c(s.p(b))
        d = s.d(torch.cat([s.u1(c), b], 1))
        return s.o(s.e(torch.cat([s.u2(d), a], 1)))


save("unet3d", UNet3, torch.zeros(1, 1, 16, 48, 48))


class PointNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.ReLU(), nn.Conv1d(128, 1024, 1))
        s.h = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(s, x):
        return s.h(s.n(x).max(-1)[0])


save("pointnet", PointNet, torch.zeros(1, 3, 1024))


class TasNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Conv1d(1, 128, 16, 8)
        L = []
        for i in range(6):
            L += [
                nn.Conv1d(128, 256, 1),
                nn.PReLU(),
                nn.GroupNorm(1, 256),
                nn.Conv1d(256, 256, 3, padding=2**i, dilation=2**i, groups=256),
                nn.PReLU(),
                nn.GroupNorm(1, 256),
                nn.Conv1d(256, 128, 1),
            ]
        s.n = nn.Sequential(*L)
        s.d = nn.ConvTranspose1d(128, 1, 16, 8)

    def forward(s, x):
        y = torch.relu(s.e(x))
        return s.d(y * torch.sigmoid(s.n(y)))


save("tasnet", TasNet, torch.zeros(1, 1, 8000))


class Crnn(nn.Module):
    def __init__(s):
        super().__init__()
        s.c = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
            nn.Conv2d(128, 128, (4, 1)),
            nn.ReLU(),
        )
        s.l = nn.LSTM(128, 128, 2, bidirectional=True, batch_first=True)
        s.o = nn.Linear(256, 37)

    def forward(s, x):
        return s.o(s.l(s.c(x).squeeze(2).transpose(1, 2))[0])


save("crnn", Crnn, torch.zeros(1, 1, 32, 128))


class Layer(nn.Module):
    """A layer of a decoder: every token sees those before it."""

    def __init__(s, d, h):
        super().__init__()
        s.h, s.n1, s.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        s.qkv, s.o, s.f1, s.f2 = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(s, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, s.h, d // s.h).transpose(1, 2) for y in s.qkv(s.n1(x)).split(d, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + s.o(y.transpose(1, 2).reshape(b, t, d))
        return x + s.f2(nn.functional.gelu(s.f1(s.n2(x))))


for tokens, layers in ((128, 4), (512, 4), (1024, 2)):
    make = lambda: nn.Sequential(*[Layer(512, 8) for _ in range(layers)])
    save(f"decoder_{tokens}", make, torch.zeros(1, tokens, 512))


class Vae(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1),
            nn.SiLU(),
            nn.Conv2d(32, 64, 4, 2, 1),
            nn.GroupNorm(8, 64),
            nn.SiLU(),
            nn.Conv2d(64, 128, 4, 2, 1),
            nn.GroupNorm(8, 128),
            nn.SiLU(),
        )
        s.d = nn.Sequential(
            nn.Upsample(scale_factor=2),
            nn.Conv2d(128, 64, 3, padding=1),
            nn.GroupNorm(8, 64),
            nn.SiLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.GroupNorm(8, 32),
            nn.SiLU(),
            nn.ConvTranspose2d(32, 3, 4, 2, 1),
        )

    def forward(s, x):
        return s.d(s.e(x))


save("vae", Vae, torch.zeros(1, 3, 64, 64))
save(
    "tdec",
    lambda: nn.TransformerDecoderLayer(256, 8, 1024, batch_first=True),
    torch.zeros(1, 32, 256),
    torch.zeros(1, 64, 256),
)
save("rnn", lambda: nn.RNN(64, 128, 2, batch_first=True), torch.zeros(1, 40, 64))


class Hidden(nn.Module):
    """The first result of a network of transformers."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        out = self.net(*inputs)
        return out.last_hidden_state if hasattr(out, "last_hidden_state") else out[0]


ids = torch.zeros(1, 64, dtype=torch.long)
save("distilbert", lambda: Hidden(T.DistilBertModel(T.DistilBertConfig(n_layers=3))), ids)
save(
    "whisper_enc",
    lambda: Hidden(
        T.models.whisper.modeling_whisper.WhisperEncoder(
            T.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
        )
    ),
    torch.zeros(1, 80, 3000),
)
save(
    "vit_tiny16",
    lambda: Hidden(
        T.ViTModel(T.ViTConfig(hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768))
    ),
    torch.zeros(1, 3, 224, 224),
)
save("segformer_b0", lambda: Hidden(T.SegformerModel(T.SegformerConfig())), torch.zeros(1, 3, 256, 256))
save(
    "wav2vec2",
    lambda: Hidden(
        T.Wav2Vec2Model(
            T.Wav2Vec2Config(num_hidden_layers=2, hidden_size=384, num_attention_heads=6, intermediate_size=1536)
        )
    ),
    torch.zeros(1, 16000),
)
save("t5enc", lambda: Hidden(T.T5EncoderModel(T.T5Config(num_layers=4))), ids)
save(
    "albert",
    lambda: Hidden(
        T.AlbertModel(
            T.AlbertConfig(hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_hidden_layers=4)
        )
    ),
    ids,
)
save("mobilebert", lambda: Hidden(T.MobileBertModel(T.MobileBertConfig(num_hidden_layers=6))), ids)
save("clip_text", lambda: Hidden(T.CLIPTextModel(T.CLIPTextConfig(num_hidden_layers=3))), ids)
save(
    "clip_vision",
    lambda: Hidden(
        T.CLIPVisionModel(
            T.CLIPVisionConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=4, num_attention_heads=6)
        )
    ),
    torch.zeros(1, 3, 224, 224),
)
save("squeezebert", lambda: Hidden(T.SqueezeBertModel(T.SqueezeBertConfig(num_hidden_layers=3))), ids)
save(
    "deberta",
    lambda: Hidden(
        T.DebertaV2Model(
            T.DebertaV2Config(
                hidden_size=384,
                num_attention_heads=6,
                intermediate_size=1536,
                num_hidden_layers=3,
                relative_attention=False,
            )
        )
    ),
    ids,
)
