"""Models of transformers: by type (`hf:llama`), or by a name whose config is on this disk (`hf:org/name`).

The config is the type's own, at toy size: numbers are made smaller by what they are called, and what is
random in training is switched off. It stays as it is but for that, so that the code that runs is the code of
the real model.
"""

import copy
import importlib
import inspect
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from difftest.cases.recipe import PLACES, WORD, Feed, Recipe
from difftest.ground.errors import UsageError
from workers.own import recipes
from workers.own.named import unknown

PACKAGE = "transformers"
EXAMPLE = "llama"

HEADS = (
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
"""transformers' tables from a type to a class, the first that has the type counts.

The last has no losses; its class is tried where the first's does not run.
"""

TOKENS, VOCABULARY, SAMPLES = 12, 64, 1600
LABELS, TYPE = "labels", "model_type"

LAYERS = re.compile(r"(num|n)_?(hidden_)?layers?")

SMALL: tuple[tuple[str, str, int], ...] = (
    ("vocabulary", r"(src_|tgt_|entity_)?vocab_size(_per_layer_input)?|n_words", VOCABULARY),
    ("layers", r"(num|n)_?((hidden|encoder|decoder|block)_)?layers?|(en|de)coder_(num_)?layers|depth", 2),
    ("layers", r"num_nextn_predict_layers|num_kv_shared_layers|first_k_dense_replace", 1),
    ("layers", r"depths", 1),
    (
        "widths",
        r"((en|de)coder_|text_|attention_)?hidden_size|d_model|n_embd|embed_dim|emb_dim|hidden_dim|dim",
        32,
    ),
    (
        "widths",
        r"embedding_size|word_embed_proj_dim|(classifier_)?proj(ection)?_(dim|size)|embedding_dim",
        32,
    ),
    ("widths", r"hidden_size_per_layer_input|conv_dim|hidden_channels|pooler_output_size", 32),
    ("widths", r".*intermediate_size|.*ffn_dim|d_ff|n_inner|ffn_hidden_size|.*mlp_dim|d_inner", 64),
    ("heads", r"(num|n)_?(attention_)?heads?|.*coder_attention_heads|num_query_heads|mamba_n(um)?_heads", 4),
    ("heads", r"num_key_value_heads|num_kv_heads|multi_query_group_num|(mamba_)?n_groups", 2),
    ("heads", r".*head_dim|d_kv|rotary_dim|(.*_)?d_head|.*lora_rank|index_topk", 8),
    ("heads", r"linear_num_(key|value)_heads", 2),
    ("experts", r"(num|n)_((local|routed)_)?experts|moe_num_experts", 4),
    ("experts", r"num_experts_per_tok(en)?|moe_top_?k|moe_k|topk_group|n_group|top_k_experts", 2),
    (
        "positions",
        r"max_position_embeddings|n_positions|max_target_positions|n_ctx|max_seq(uence)?_len(gth)?",
        64,
    ),
    ("positions", r"max_source_positions|context_length", 16),
    ("positions", r"sliding_window|attention_window|(.*_)?chunk_size|window_size", 8),
    ("state", r"(ssm_)?state_size|.*_d_state|time_step_rank|.*_dt_rank", 8),
    ("images", r"image_size", 32),
    ("images", r"patch_size|tubelet_size", 8),
    ("images", r"num_mel_bins", 16),
)
"""Groups of numbers that fit one another: the group, the names, and the largest value."""

GROUPS = tuple(dict.fromkeys(group for group, _, _ in SMALL))

STAGES, FIRST_WIDTH = re.compile(r"hidden_sizes|neck_hidden_sizes|.*encoder_hidden_sizes|.*_hidden_dims"), 16
"""Widths of stages, which grow from one to the next as they did."""

RANDOM = re.compile(r".*(drop(?!_last)|jitter|mask_(time|feature)_prob).*")
"""The numbers and switches by which a model draws at random in training."""

IDS = re.compile(r"(pad|bos|eos|sep|cls|mask|unk|decoder_start|forced_[be]os)_token_id")
"""The tokens that a vocabulary must have."""

WITHOUT = re.compile(
    r"_.*|.*attn_implementation|architectures|.*auto_map|transformers_version|(torch_)?dtype|id2label|label2id|"
    rf".*tokenizer.*|quantization_config|name_or_path|{TYPE}|.*suppress_tokens"
)
"""What a recipe leaves out: it decides no number, or something could be loaded by it."""

HEAD = 8
"""The width of a head."""

SWITCHES = {"use_cache": False, "apply_spec_augment": False}

Plain: TypeAlias = dict[str, Any]


def names() -> Iterable[str]:
    """The types that have a model."""
    return sorted({name for table in _tables() for name in table})


def candidates(name: str) -> Iterator[Recipe]:
    """The type's own config at toy size; where that does not run, with some numbers as they are."""
    config = _config(name)
    calls = [table[config.model_type] for table in _tables() if config.model_type in table]
    if not calls:
        msg = f"transformers has no model of the type {config.model_type!r} that can be trained"
        raise UsageError(msg)
    for call in dict.fromkeys(one if isinstance(one, str) else one[0] for one in (calls[0], calls[-1])):
        yield from _of_class(call, config)


def _of_class(called: str, config: Any) -> Iterator[Recipe]:  # noqa: ANN401
    """The recipes of one class."""
    module, plain = getattr(recipes.imported(PACKAGE), called), _plain(config.to_dict())
    pairs = (set(pair) for pair in itertools.combinations(GROUPS, 2))
    for left in (set[str](), *({group} for group in GROUPS), *pairs):
        small = _small(plain, left)
        try:
            shown = type(config)(**copy.deepcopy(small)).to_dict()
        except Exception:  # noqa: BLE001, S112  a config refuses sizes in its own way
            continue
        for inputs in _inputs(module, shown):
            labels = next((feed for feed in inputs if feed.name == LABELS), None)
            yield Recipe(
                package="transformers",
                call=called,
                config=type(config).__name__,
                arguments=small,
                inputs=inputs,
                targets=labels or Feed(name="targets"),
                loss="own" if labels else "mse",
            )


def _tables() -> list[Mapping[str, Any]]:
    recipes.imported(PACKAGE)
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    return [getattr(auto, head) for head in HEADS]


def _config(name: str) -> Any:  # noqa: ANN401  transformers is not typed for us
    """The config of a type, or one that is on this disk: in a folder, or in the hub's cache."""
    package = recipes.imported(PACKAGE)
    if "/" not in name and not Path(name, "config.json").is_file():
        try:
            return package.CONFIG_MAPPING[name]()
        except KeyError as error:
            raise unknown(__name__, name, names()) from error
    try:
        return package.AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        msg = f"no config of {name!r} on this disk, in a folder or in the hub's cache: {reason}"
        raise UsageError(msg) from error


def _plain(values: Mapping[str, Any], *, inside: bool = False) -> Plain:
    """What a config says, less what a recipe leaves out; one that is `inside` another says its type."""
    return {
        key: _plain(one, inside=True) if isinstance(one, Mapping) else one
        for key, one in values.items()
        if isinstance(key, str) and _is_data(key, one)
        if not WITHOUT.fullmatch(key) or (inside and key == TYPE)
    }


def _is_data(key: str, value: object) -> bool:
    """Whether a recipe may have this value under this name."""
    if isinstance(value, str):
        return bool(WORD.fullmatch(value)) and not PLACES.fullmatch(key)
    if isinstance(value, list | tuple):
        return all(_is_data(key, one) for one in value)
    if isinstance(value, float):
        return math.isfinite(value)  # JSON has no infinity
    return value is None or isinstance(value, bool | int | Mapping)


def _small(values: Plain, left: set[str]) -> Plain:
    """A config with its numbers made smaller, but for those of the groups `left` as they are."""
    made: Plain = {}
    for key, value in values.items():
        if isinstance(value, dict):
            made[key] = _small(value, left)
        elif RANDOM.fullmatch(key) and isinstance(value, float):
            made[key] = 0.0
        elif key in SWITCHES:
            made[key] = SWITCHES[key]
        elif IDS.fullmatch(key) and isinstance(value, int):
            made[key] = value if value < VOCABULARY or "vocabulary" in left else VOCABULARY - 1 - len(key) % 8
        else:
            made[key] = _smaller(key, value, left)
    if made.get("is_encoder_decoder"):
        made.setdefault("decoder_start_token_id", 0)
    return _with_heads(values, _fewer_layers(values, made))


def _with_heads(values: Plain, made: Plain) -> Plain:
    """The config with as many heads of keys as of queries, where it had equal numbers, and their widths."""
    for keys, queries in (("num_key_value_heads", "num_attention_heads"), ("num_kv_heads", "num_heads")):
        if keys in made and values[keys] == values.get(queries):
            made[keys] = made[queries]
    heads, width = made.get("num_heads"), made.get("hidden_size")
    if isinstance(heads, list) and heads and isinstance(made.get("embed_dim"), int):
        made["embed_dim"] = min(values["embed_dim"], HEAD * heads[0])  # of the first stage
    if isinstance(heads, int) and isinstance(width, int) and "expand" in made and "head_dim" in made:
        made["head_dim"] = made["expand"] * width // heads  # a state space's heads fill its inner width
    return made


def _smaller(key: str, value: Any, left: set[str]) -> Any:  # noqa: ANN401  JSON
    limits = ((group, most) for group, pattern, most in SMALL if re.fullmatch(pattern, key))
    group, limit = next(((group, most) for group, most in limits if group not in left), ("", 0))
    if STAGES.fullmatch(key) and isinstance(value, list | tuple) and "widths" not in left and value:
        return [max(1, width * FIRST_WIDTH // value[0]) for width in value]
    if not limit or isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and group == "heads":
        return value  # by stage, with the widths
    if isinstance(value, list | tuple):
        return [min(one, limit) if isinstance(one, int) else one for one in value]
    return min(value, limit) if isinstance(value, int) else value


def _fewer_layers(values: Plain, made: Plain) -> Plain:
    """The config with its lists by layer as short as its layers: the first layer of each kind."""
    kinds = values.get("layer_types") or values.get("layers_block_type")
    for key, before in values.items():
        if not (LAYERS.fullmatch(key) and isinstance(before, int) and made[key] < before):
            continue
        kept = [0, 1][: made[key]]
        if isinstance(kinds, list) and len(kinds) == before:
            firsts = sorted(kinds.index(kind) for kind in set(kinds))
            kept = sorted({*firsts, *range(made[key] - len(firsts))})
            made[key] = len(kept)
        for name, one in made.items():
            if isinstance(one, list) and len(one) == before:
                made[name] = [one[index] for index in kept]
    return made


def _inputs(module: Any, config: Mapping[str, Any]) -> Iterator[tuple[Feed, ...]]:  # noqa: ANN401
    """What its forward may be fed: its main input, with labels where it takes them."""
    arguments = inspect.signature(module.forward).parameters
    for names in ((module.main_input_name,), ("input_ids", "pixel_values"), ("input_ids",)):
        if not {*names} <= {*arguments}:
            continue
        for feeds in itertools.product(*(_feeds(name, config) for name in names)):
            if LABELS not in arguments:
                yield feeds
                continue
            yield from ((*feeds, labels) for labels in _labels(config, feeds))


def _feeds(name: str, config: Mapping[str, Any]) -> Iterator[Feed]:
    """An input by its name in transformers, in the shapes that models take it in."""
    size, bins = _of(config, "image_size", 32), _of(config, "num_mel_bins", 16)
    channels = _of(config, "num_channels", 3)
    if name in {"input_ids", "decoder_input_ids"}:
        yield Feed(name=name, row=(TOKENS,), high=_of(config, "vocab_size", VOCABULARY))
    elif name == "pixel_values":
        yield Feed(name=name, row=(channels, size, size))
        yield Feed(name=name, row=(channels, 2 * size, 2 * size))
        if frames := _of(config, "num_frames", 0):
            yield Feed(name=name, row=(frames, channels, size, size))
    elif name == "input_features":
        yield Feed(name=name, row=(bins, 2 * _of(config, "max_source_positions", 16)))
        yield Feed(name=name, row=(32, bins))
    elif name == "input_values":
        yield Feed(name=name, row=(SAMPLES,))
        yield Feed(name=name, row=(_of(config, "max_length", 32), bins))


def _labels(config: Mapping[str, Any], feeds: tuple[Feed, ...]) -> Iterator[Feed]:
    """Labels of tokens, of rows, or of pixels."""
    classes = len(config.get("id2label") or (0, 1))
    if any(feed.name == "input_ids" for feed in feeds) or config.get("is_encoder_decoder"):
        yield Feed(name=LABELS, row=(TOKENS,), high=_of(config, "vocab_size", VOCABULARY))
    yield Feed(name=LABELS, high=classes)
    if feeds[0].name == "pixel_values":
        yield Feed(name=LABELS, row=feeds[0].row[1:], high=classes)


def _of(config: Mapping[str, Any], key: str, default: int) -> int:
    """A number of the config, or of a config inside."""
    inner = (one for one in config.values() if isinstance(one, Mapping))
    value = next(
        (one[key] for one in (config, *inner) if isinstance(one.get(key), int | list | tuple)), default
    )
    return value if isinstance(value, int) else value[0]
