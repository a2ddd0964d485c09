"""Language and speech models as they are served: with caches, sizes known at run time, and state."""

import torch
from torch import nn

from architectures import MODELS, model, tokens
from library_architectures import SMALL, Keywords, decoder, encoder
from recipes import Recipe

CACHED = {**SMALL, "num_key_value_heads": 2, "max_position_embeddings": 64}


def cache_of(past):
    """A cache that holds keys and values; the class itself would join them to an empty tensor of rank one."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache()
    for keys, values in zip(past[::2], past[1::2]):
        layer = DynamicLayer()
        layer.keys, layer.values, layer.dtype, layer.device = keys, values, keys.dtype, keys.device
        layer.is_initialized = True
        cache.layers.append(layer)
    return cache


class Cached(nn.Module):
    """A decoder that takes tokens, a mask over cache and tokens, and the cache; gives scores and the longer cache."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, ids, mask, *past):
        cache = cache_of(past)
        position = (mask.cumsum(-1) - 1)[:, -ids.shape[1]:]
        out = self.module(input_ids=ids, attention_mask=mask, position_ids=position, past_key_values=cache, use_cache=True)
        return out.logits, *(part for layer in out.past_key_values.layers for part in (layer.keys, layer.values))


def language_model(name, **arguments):
    import transformers

    config = getattr(transformers, f"{name}Config")(**{**CACHED, **arguments})
    return Cached(getattr(transformers, f"{name}ForCausalLM")(config)), config


def run(config, length, past, heads=2, width=8):
    """Inputs of a run with `length` tokens after `past`."""
    torch.manual_seed(length + past)
    caches = [torch.randn(1, heads, past, width) for _ in range(2 * config.num_hidden_layers)]
    return [tokens(length), torch.ones(1, length + past, dtype=torch.long), *caches]


def cached(name, heads=2, width=8, **arguments):
    """A prompt and a step with a cache, whose length is known at run time."""

    def make():
        module, config = language_model(name, **arguments)
        count = 2 * config.num_hidden_layers
        shapes = {0: "1,1..8", 1: "1,1..24", **{2 + i: f"1,{heads},0..16,{width}" for i in range(count)}}
        sizes = ((5, 3), (1, 9), (8, 16), (4, 0))
        return Recipe(module, run(config, 5, 3, heads, width), shapes=shapes,
                      runs=[run(config, *size, heads, width) for size in sizes])

    MODELS[f"cached_{name.lower()}"] = make


def stateful(name, heads=2, width=8, **arguments):
    """The cache is state of the model: a prompt, then step by step."""

    def make():
        module, config = language_model(name, **arguments)
        count = 2 * config.num_hidden_layers
        shapes = {0: "1,1..8", 1: "1,1..24", **{2 + i: f"1,{heads},0..16,{width}" for i in range(count)}}
        ids = tokens(8)
        total, runs = 0, []
        for length in (4, 1, 1, 2):
            runs.append([ids[:, total:total + length], torch.ones(1, total + length, dtype=torch.long)])
            total += length
        state = {2 + i: 1 + i for i in range(count)}
        return Recipe(module, run(config, 5, 3, heads, width), shapes=shapes, runs=runs, state=state)

    MODELS[f"stateful_{name.lower()}"] = make


cached("Llama")
cached("Qwen2")
cached("Qwen3", head_dim=8)
cached("Phi3", pad_token_id=0)
cached("Gemma", head_dim=8)
cached("GPTNeoX", 4)
stateful("Llama")
stateful("Mistral", sliding_window=None)

decoder("Qwen3", num_key_value_heads=2, head_dim=8, max_position_embeddings=64)
decoder("Phi3", num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0)
decoder("Gemma2", num_key_value_heads=2, head_dim=8, max_position_embeddings=64)
decoder("StableLm", num_key_value_heads=2, max_position_embeddings=64)
decoder("Starcoder2", num_key_value_heads=2, max_position_embeddings=64)
decoder("Olmo2", num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0)
decoder("Cohere", num_key_value_heads=2, max_position_embeddings=64)
decoder("Granite", num_key_value_heads=2, max_position_embeddings=64)
decoder("GPTNeo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=4,
        max_position_embeddings=64)
decoder("GPTJ", n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4)
decoder("CodeGen", n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4)
decoder("Mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=64)
decoder("Rwkv", attention_hidden_size=32, context_length=32)
decoder("Mamba2", num_heads=8, head_dim=8, state_size=8, n_groups=2, chunk_size=8, expand=2)
encoder("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=64)
encoder("FNet")
encoder("ConvBert", embedding_size=16, conv_kernel_size=3, head_ratio=2)
encoder("SqueezeBert", embedding_size=32, q_groups=2, k_groups=2, v_groups=2, post_attention_groups=1,
        intermediate_groups=2, output_groups=2)
encoder("MobileBert", embedding_size=16, true_hidden_size=16, intra_bottleneck_size=16, num_feedforward_networks=2)
encoder("Nystromformer", num_landmarks=12, segment_means_seq_len=12, conv_kernel_size=3, max_position_embeddings=64)
encoder("Esm", pad_token_id=0, mask_token_id=1, position_embedding_type="rotary", token_dropout=False)


def speech(name, **arguments):
    """A model on samples of sound."""

    def make():
        import transformers

        config = getattr(transformers, f"{name}Config")(**{
            **SMALL, "conv_dim": (16, 16, 16), "conv_stride": (5, 4, 2), "conv_kernel": (10, 8, 4),
            "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, **arguments})
        module = getattr(transformers, f"{name}Model")(config)
        return Keywords(module, ["input_values"], "last_hidden_state"), [torch.randn(1, 2000)]

    MODELS[f"transformers_{name.lower()}"] = make


speech("Hubert")
speech("WavLM", num_buckets=16, max_bucket_distance=32)
speech("SEW", squeeze_factor=2)
speech("UniSpeechSat")


def whisper():
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=16,
        max_source_positions=20, max_target_positions=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return transformers.WhisperForConditionalGeneration(config)


def fresh_cache(layers):
    """A cache that stores nothing: keys and values are computed anew from what the encoder saw."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    class Fresh(DynamicLayer):
        def update(self, keys, values, *_, **__):
            return keys, values

    cache = DynamicCache()
    cache.layers = [Fresh() for _ in range(layers)]
    return cache


class WhisperDecoder(nn.Module):
    """One step of the decoder: tokens, what the encoder saw, and the cache of the decoder's own attention."""

    def __init__(self):
        super().__init__()
        module = whisper()
        self.decoder, self.head = module.model.decoder, module.proj_out

    def forward(self, ids, seen, *past):
        from transformers.cache_utils import EncoderDecoderCache

        cache = EncoderDecoderCache(cache_of(past), fresh_cache(len(past) // 2))
        start = past[0].shape[2]
        out = self.decoder(input_ids=ids, encoder_hidden_states=seen, past_key_values=cache, use_cache=True,
                           position_ids=torch.arange(start, start + ids.shape[1]).unsqueeze(0))
        layers = out.past_key_values.self_attention_cache.layers
        return self.head(out.last_hidden_state), *(part for layer in layers for part in (layer.keys, layer.values))


def whisper_run(length, past):
    torch.manual_seed(length + past)
    return [tokens(length), torch.randn(1, 20, 32), *(torch.randn(1, 4, past, 8) for _ in range(4))]


@model
def cached_whisper():
    shapes = {0: "1,1..4", **{2 + i: "1,4,0..16,8" for i in range(4)}}
    return Recipe(WhisperDecoder(), whisper_run(2, 3), shapes=shapes,
                  runs=[whisper_run(*size) for size in ((2, 3), (1, 9), (4, 0))])


@model
def stateful_whisper():
    shapes = {0: "1,1..4", **{2 + i: "1,4,0..16,8" for i in range(4)}}
    seen = torch.randn(1, 20, 32)
    runs = [[tokens(length), seen] for length in (3, 1, 1)]
    return Recipe(WhisperDecoder(), whisper_run(2, 3), shapes=shapes, runs=runs, state={2 + i: 1 + i for i in range(4)})


@model
def dynamic_bert():
    """Batch and length known at run time."""
    import transformers

    module = transformers.BertModel(transformers.BertConfig(**SMALL, max_position_embeddings=32))
    inputs = lambda batch, length: [tokens(length, batch=batch), torch.ones(batch, length, dtype=torch.long)]
    return Recipe(Keywords(module, ["input_ids", "attention_mask"], "last_hidden_state"), inputs(2, 7),
                  shapes={0: "1..3,1..16", 1: "1..3,1..16"}, runs=[inputs(2, 7), inputs(1, 1), inputs(3, 16)])


@model
def dynamic_t5():
    import transformers

    config = transformers.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                   decoder_start_token_id=0)
    config.use_cache = False
    module = transformers.T5ForConditionalGeneration(config)
    inputs = lambda source, target: [tokens(source), tokens(target)]
    return Recipe(Keywords(module, ["input_ids", "decoder_input_ids"], "logits"), inputs(12, 6),
                  shapes={0: "1,1..16", 1: "1,1..8"}, runs=[inputs(12, 6), inputs(1, 1), inputs(16, 8)])


@model
def dynamic_gpt2():
    import transformers

    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False)
    inputs = lambda batch, length: [tokens(length, batch=batch), torch.ones(batch, length, dtype=torch.long)]
    return Recipe(Keywords(transformers.GPT2LMHeadModel(config), ["input_ids", "attention_mask"], "logits"), inputs(2, 5),
                  shapes={0: "1..2,1..12", 1: "1..2,1..12"}, runs=[inputs(2, 5), inputs(1, 12)])


@model
def onnx_bert():
    import transformers

    module = transformers.BertModel(transformers.BertConfig(**SMALL, attn_implementation="eager"))
    names = ["input_ids", "attention_mask"]
    return Recipe(Keywords(module, names, "last_hidden_state"), [tokens(), torch.ones(1, 12, dtype=torch.long)], onnx=True)


class Tagger(nn.Module):
    """Words, two directions of an LSTM, and the scores of tags."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(100, 12), nn.Linear(32, 7)
        self.layers = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids))[0]).log_softmax(-1)


@model
def dynamic_tagger():
    return Recipe(Tagger(), [tokens(6, batch=2)], shapes={0: "1..4,1..10"},
                  runs=[[tokens(6, batch=2)], [tokens(10)], [tokens(1, batch=4)]])


@model
def onnx_tagger():
    return Recipe(Tagger(), [tokens(9, batch=2)], onnx=True)


class Translator(nn.Module):
    """An attentive recurrent decoder that feeds its own choices back, written as a loop."""

    def __init__(self):
        super().__init__()
        self.embed, self.encode = nn.Embedding(50, 16), nn.GRU(16, 16, batch_first=True)
        self.cell, self.head = nn.GRUCell(32, 16), nn.Linear(16, 50)

    def forward(self, ids):
        seen, state = self.encode(self.embed(ids))
        state, last, scores = state[0], ids[:, 0], []
        for _ in range(4):
            weight = (seen @ state.unsqueeze(-1)).softmax(1)
            state = self.cell(torch.cat([self.embed(last), (weight * seen).sum(1)], 1), state)
            scores.append(self.head(state))
            last = scores[-1].argmax(-1)
        return torch.stack(scores, 1), last


@model
def own_translator():
    return Translator(), [tokens(7, 50, batch=2)]


class Scripted(nn.Module):
    """A loop that stays a loop in the file: an accumulator over time with a condition inside."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(12, 8)

    def forward(self, x):
        state = torch.zeros(x.shape[1], 8)
        for i in range(x.shape[0]):
            new = torch.tanh(self.cell(torch.cat([x[i], state], 1)))
            if bool(new.mean() > 0):
                state = new
            else:
                state = 0.5 * (state + new)
        return state


@model
def own_scripted_loop():
    return torch.jit.script(Scripted()), [torch.randn(5, 2, 4)]
