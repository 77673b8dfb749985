"""BeamSearch, WhisperBeamSearch, GreedySearch and Sampling of `com.microsoft`: their subgraphs, limits, penalties and masks, computed by
ONNX Runtime.

ONNX Runtime draws for `Sampling` with a generator of its own, so the vectors of `Sampling` leave one token to each draw.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from family import Family

f = Family("searches", opset=17)
MS = {"com.microsoft": 1}
V, D, N, PLACES = 12, 8, 2, 24
"""The tokens, the width, the heads and the positions."""
H = D // N
i32 = np.int32


def weights(seed, width=D):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.normal(0, 1, shape).astype(np.float32)
    return {"words": normal(V, width), "places": normal(PLACES, width), "w": normal(width, 3 * width) * np.float32(0.7),
            "b": normal(3 * width), "out": normal(width, V) * np.float32(1.5)}


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


def port(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, list(shape))


def initializers(values):
    return [numpy_helper.from_array(v, k) for k, v in values.items()]


def gpt(seed=0, layers=1, captured=(), halves=False, name="decoder", outer=None):
    """A decoder of the kind of GPT-2. What is named in `captured` comes from the graph around it."""
    own = weights(seed)
    nodes = [node("Gather", ["words", "input_ids"], ["word"]), node("Gather", ["places", "position_ids"], ["place"]),
             node("Add", ["word", "place"], ["x0"])]
    for i in range(layers):
        nodes += [node("Attention", [f"x{i}", "w", "b", "attention_mask", f"past_{i}"], [f"a{i}", f"present_{i}"], "com.microsoft",
                       num_heads=N, unidirectional=1), node("Add", [f"a{i}", f"x{i}"], [f"x{i + 1}"])]
    nodes.append(node("MatMul", [f"x{layers}", "out"], ["logits"]))
    F, I = TensorProto.FLOAT, TensorProto.INT32
    inputs = [port("input_ids", I, "b", "s"), port("position_ids", I, "b", "s"), port("attention_mask", I, "b", "t")]
    inputs += [port(f"past_{i}", F, 2, "b", N, "p", H) for i in range(layers)]
    outputs = [port("logits", F, "b", "s", V)] + [port(f"present_{i}", F, 2, "b", N, "t", H) for i in range(layers)]
    kept = {k: v for k, v in own.items() if k not in captured}
    return helper.make_graph(nodes, name, inputs, outputs, initializer=initializers(kept))


def roomy(kind, most, width=16):
    """Decoders of the kind of GPT-2 whose caches have room for all, with what computes the same without room."""
    own = weights(9, width)
    F, I, size = TensorProto.FLOAT, TensorProto.INT32, width // N
    begin = [node("Gather", ["words", "input_ids"], ["word"]), node("Gather", ["places", "position_ids"], ["place"]),
             node("Add", ["word", "place"], ["x"])]
    end = [node("Add", ["a", "x"], ["z"]), node("MatMul", ["z", "out"], ["logits"])]
    one = {"domain": "com.microsoft", "num_heads": N}
    plain = node("Attention", ["x", "w", "b", "attention_mask", "past_0"], ["a", "present_0"], unidirectional=1, **one)
    shared = node("Attention", ["x", "w", "b", "attention_mask", "past_0", "", "past_sequence_length"], ["a", "present_0"], unidirectional=1,
                  past_present_share_buffer=1, **one)
    masked = node("DecoderMaskedSelfAttention", ["x", "w", "b", "attention_mask", "past_0", "", "past_sequence_length", "beam_width",
                                                 "cache_indirection"], ["a", "present_0"], past_present_share_buffer=1, **one)

    def graph(name, attention, behind):
        inputs = [port("input_ids", I, "b", "s"), port("position_ids", I, "b", "s"), port("attention_mask", I, "b", "t"),
                  port("past_0", F, 2, "b", N, "p", size), *behind]
        outputs = [port("logits", F, "b", "s", V), port("present_0", F, 2, "b", N, "r", size)]
        return helper.make_graph([*begin, attention, *end], name, inputs, outputs, initializer=initializers(own))

    length = port("past_sequence_length", I, 1)
    beams = [port("beam_width", I, 1), port("cache_indirection", I, "e", "w", "m")]
    if kind == "plain":
        return {"decoder": graph("decoder", plain, [])}
    if kind == "shared":
        return {"decoder": graph("decoder", shared, [length])}
    return {"init_decoder": graph("init_decoder", shared, [length, *beams]), "decoder": graph("decoder", masked, [length, *beams])}


def attend(query, key, value, mask, y, past=(), present=()):
    return node("MultiHeadAttention", [query, key, value, "", mask, "", *past], [y, *present], "com.microsoft", num_heads=N)


def t5(seed=0, hidden=True, short=False, roomy=False):
    """An encoder and a decoder of the kind of T5. `short` is the form whose encoder does not begin to decode, and with `roomy` the
    decoder's caches have room for all."""
    rng = np.random.default_rng(seed + 50)
    own = weights(seed) | {k: rng.normal(0, 0.7, (D, D)).astype(np.float32) for k in ["q", "k", "v", "cq", "ck", "cv"]}
    F, I = TensorProto.FLOAT, TensorProto.INT32

    def decoder(ids, past, out):
        """One layer: attention over what came before, and over the encoder's words."""
        return [node("Gather", ["words", ids], ["e"]),
                *[node("MatMul", ["e", w], [f"self_{w}"]) for w in "qkv"],
                attend("self_q", "self_k", "self_v", "", "s", past, ["present_key_self_0", "present_value_self_0"]),
                node("Add", ["s", "e"], ["h"]), node("MatMul", ["h", "cq"], ["cross_q"]),
                attend("cross_q", "cross_k", "cross_v", "encoder_attention_mask", "c"),
                node("Add", ["c", "h"], ["z"]), node("MatMul", ["z", "out"], [out])]

    split = lambda x, y: [node("Reshape", [x, "by_heads"], [f"{y}_r"]), node("Transpose", [f"{y}_r"], [y], perm=[0, 2, 1, 3])]
    constants = own | {"by_heads": np.array([0, 0, N, H], np.int64)}
    nodes = [node("Gather", ["words", "encoder_input_ids"], ["w0"]),
             node("Cast", ["encoder_attention_mask"], ["mf"], to=F), node("Unsqueeze", ["mf", "last"], ["mu"]),
             node("Mul", ["w0", "mu"], ["encoder_hidden_states"]),
             node("MatMul", ["encoder_hidden_states", "ck"], ["ck0"]), node("MatMul", ["encoder_hidden_states", "cv"], ["cv0"]),
             *split("ck0", "present_key_cross_0"), *split("cv0", "present_value_cross_0")]
    constants["last"] = np.array([2], np.int64)
    inputs = [port("encoder_input_ids", I, "b", "e"), port("encoder_attention_mask", I, "b", "e")]
    cross = [port(f"present_{x}_cross_0", F, "b", N, "e", H) for x in ["key", "value"]]
    own_cache = lambda way: [port(f"{way}_{x}_self_0", F, "b", N, "p" if way == "past" else "t", H) for x in ["key", "value"]]
    if short:
        outputs = cross
    else:
        inputs.append(port("decoder_input_ids", I, "b", 1))
        begin = decoder("decoder_input_ids", [], "logits")
        rename = {"cross_k": "present_key_cross_0", "cross_v": "present_value_cross_0"}
        for one in begin:
            for at, name in enumerate(one.input):
                one.input[at] = rename.get(name, name)
        nodes += begin
        outputs = [port("logits", F, "b", 1, V), port("encoder_hidden_states", F, "b", "e", D), *own_cache("present"), *cross]
    used = {name for one in nodes for name in one.input}
    encoder = helper.make_graph(nodes, "encoder", inputs, outputs,
                                initializer=initializers({k: v for k, v in constants.items() if k in used}))
    nodes = decoder("input_ids", ["past_key_self_0", "past_value_self_0"], "logits")
    rename = {"cross_k": "past_key_cross_0", "cross_v": "past_value_cross_0"}
    for one in nodes:
        for at, name in enumerate(one.input):
            one.input[at] = rename.get(name, name)
    inputs = [port("input_ids", I, "b", 1), port("encoder_attention_mask", I, "b", "e")]
    if hidden:
        inputs.append(port("encoder_hidden_states", F, "b", "e", D))
        nodes += [node("ReduceMean", ["encoder_hidden_states"], ["m"], axes=[1, 2], keepdims=1), node("Mul", ["m", "zero"], ["m0"]),
                  node("Identity", ["logits"], ["unused"])]
        nodes = [n for n in nodes if n.output[0] not in ("m", "m0", "unused")]
    inputs += own_cache("past") + [port(f"past_{x}_cross_0", F, "b", N, "e", H) for x in ["key", "value"]]
    if roomy:
        behind = ["past_sequence_length", "beam_width", "cache_indirection"]
        inputs += [port(behind[0], I, 1), port(behind[1], I, 1), port(behind[2], I, "n", "w", "m")]
        at = next(i for i, one in enumerate(nodes) if one.output[0] == "s")
        nodes[at] = node("DecoderMaskedMultiHeadAttention", ["self_q", "self_k", "self_v", "", "", "past_key_self_0", "past_value_self_0", *behind],
                         ["s", "present_key_self_0", "present_value_self_0"], "com.microsoft", num_heads=N, past_present_share_buffer=1)
    used = {name for one in nodes for name in one.input}
    made = helper.make_graph(nodes, "decoder", inputs, [port("logits", F, "b", 1, V), *own_cache("present")],
                             initializer=initializers({k: v for k, v in own.items() if k in used}))
    return {"encoder": encoder, "decoder": made}


def whisper(seed=0, hidden=True, tokens=V):
    """An encoder and a decoder of the kind of Whisper: the encoder hears, and reads the tokens that are given."""
    rng = np.random.default_rng(seed + 90)
    normal = lambda *shape: rng.normal(0, 1, shape).astype(np.float32)
    own = {"words": normal(tokens, D), "out": normal(D, tokens) * np.float32(1.5), "ear": normal(BANDS, D)}
    own |= {k: normal(D, D) * np.float32(0.7) for k in ["q", "k", "v", "cq", "ck", "cv"]} | {"by_heads": np.array([0, 0, N, H], np.int64)}
    F, I = TensorProto.FLOAT, TensorProto.INT32

    def decoder(ids, past, cross):
        """One layer: attention over what came before, and over what is heard."""
        begins = {} if past else {"unidirectional": 1}
        return [node("Gather", ["words", ids], ["e"]), *[node("MatMul", ["e", w], [f"self_{w}"]) for w in "qkv"],
                node("MultiHeadAttention", ["self_q", "self_k", "self_v", *(["", "", "", *past] if past else [])],
                     ["s", "present_key_self_0", "present_value_self_0"], "com.microsoft", num_heads=N, **begins),
                node("Add", ["s", "e"], ["h"]), node("MatMul", ["h", "cq"], ["cross_q"]), attend("cross_q", *cross, "", "c"),
                node("Add", ["c", "h"], ["z"]), node("MatMul", ["z", "out"], ["logits"])]

    split = lambda x, y: [node("Reshape", [x, "by_heads"], [f"{y}_r"]), node("Transpose", [f"{y}_r"], [y], perm=[0, 2, 1, 3])]
    caches = lambda way, kind, length: [port(f"{way}_{x}_{kind}_0", F, "b", N, length, H) for x in ["key", "value"]]

    def graph(name, nodes, inputs, outputs):
        used = {k for one in nodes for k in one.input}
        return helper.make_graph(nodes, name, inputs, outputs, initializer=initializers({k: v for k, v in own.items() if k in used}))

    nodes = [node("Transpose", ["encoder_input_ids"], ["t"], perm=[0, 2, 1]), node("MatMul", ["t", "ear"], ["encoder_hidden_states"]),
             node("MatMul", ["encoder_hidden_states", "ck"], ["ck0"]), node("MatMul", ["encoder_hidden_states", "cv"], ["cv0"]),
             *split("ck0", "present_key_cross_0"), *split("cv0", "present_value_cross_0"),
             *decoder("decoder_input_ids", [], ["present_key_cross_0", "present_value_cross_0"])]
    encoder = graph("encoder", nodes, [port("encoder_input_ids", F, "b", BANDS, "f"), port("decoder_input_ids", I, "b", "s")],
                    [port("logits", F, "b", "s", tokens), port("encoder_hidden_states", F, "b", "e", D), *caches("present", "self", "t"),
                     *caches("present", "cross", "e")])
    takes = [port("encoder_hidden_states", F, "b", "e", D)] if hidden else []
    inputs = [port("input_ids", I, "b", 1), *takes, *caches("past", "self", "p"), *caches("past", "cross", "e")]
    nodes = decoder("input_ids", ["past_key_self_0", "past_value_self_0"], ["past_key_cross_0", "past_value_cross_0"])
    return {"encoder": encoder, "decoder": graph("decoder", nodes, inputs, [port("logits", F, "b", 1, tokens), *caches("present", "self", "t")])}


BANDS = 6
"""The numbers that are heard at a time."""


def of_halves(graphs, kept=False):
    """The same subgraphs with elements of 16 bits; if `kept`, with weights that have such values in elements of 32 bits."""
    F, made = TensorProto.FLOAT, {}
    for name, graph in graphs.items():
        made[name] = copy = onnx.GraphProto()
        copy.CopyFrom(graph)
        for one in copy.initializer:
            if one.data_type == F:
                half = numpy_helper.to_array(one).astype(np.float16)
                one.CopyFrom(numpy_helper.from_array(half.astype(np.float32) if kept else half, one.name))
        if kept:
            continue
        for one in [*copy.input, *copy.output]:
            if one.type.tensor_type.elem_type == F:
                one.type.tensor_type.elem_type = TensorProto.FLOAT16
        for attribute in [a for one in copy.node if one.op_type == "Cast" for a in one.attribute if a.name == "to"]:
            attribute.i = TensorProto.FLOAT16
    return made


def search(name, op, operands, graphs, outputs=1, constants=None, expected="ort", tolerance=1e-4, **attributes):
    """Adds a vector of one node. `None` is an operand that is left out."""
    names = [k if v is not None else "" for k, v in operands.items()]
    while not names[-1]:
        names.pop()
    names_of = ["sequences", "sequences_scores", "scores", "cross_qk", "non_speech_probs"]
    results = names_of[:outputs] if isinstance(outputs, int) else outputs
    attributes = {"eos_token_id": V - 1, "pad_token_id": 0} | attributes
    made = helper.make_node(op, names, results, domain="com.microsoft", **attributes, **graphs)
    given = {k: v for k, v in operands.items() if v is not None}
    f.add(name, [made], given, outputs=results, opset=17, opsets=MS, constants=constants, expected=expected, relative=tolerance,
          absolute=tolerance)


def beams(name, ids, graphs, outputs=3, max_length=10, num_beams=3, num_return=1, min_length=1, length_penalty=1.0,
          repetition=1.0, vocab=None, prefix=None, mask=None, constants=None, begin=None, processor=None, penalties=np.float32,
          **attributes):
    one = lambda x, dtype: None if x is None else np.array([x], dtype)
    search(name, "BeamSearch", {
        "input_ids": np.array(ids, i32), "max_length": one(max_length, i32), "min_length": one(min_length, i32),
        "num_beams": one(num_beams, i32), "num_return_sequences": one(num_return, i32),
        "length_penalty": one(length_penalty, penalties), "repetition_penalty": one(repetition, penalties),
        "vocab_mask": vocab, "prefix_vocab_mask": prefix, "attention_mask": mask,
        "decoder_input_ids": None if begin is None else np.array(begin, i32), "logits_processor": one(processor, i32)},
        graphs, outputs, constants, **attributes)


def heard(seed, batch, dtype=np.float32):
    return np.random.default_rng(seed).normal(0, 1, (batch, BANDS, 5)).astype(dtype)


def speech(name, sound, begin, graphs, op="WhisperBeamSearch", max_length=12, min_length=1, num_beams=3, num_return=1,
           length_penalty=1.0, repetition=1.0, vocab=None, prefix=None, processor=None, temperature=None, penalties=np.float32, outputs=3,
           **attributes):
    one = lambda x, dtype: None if x is None else np.array([x], dtype)
    search(name, op, {
        "input_ids": sound, "max_length": one(max_length, i32), "min_length": one(min_length, i32), "num_beams": one(num_beams, i32),
        "num_return_sequences": one(num_return, i32), "length_penalty": one(length_penalty, penalties),
        "repetition_penalty": one(repetition, penalties), "vocab_mask": vocab, "prefix_vocab_mask": prefix, "attention_mask": None,
        "decoder_input_ids": None if begin is None else np.array(begin, i32), "logits_processor": one(processor, i32),
        "cross_qk_layer_head": None, "extra_decoding_ids": None, "temperature": one(temperature, penalties)},
        graphs, outputs, **{"model_type": 2, "decoder_start_token_id": 2} | attributes)


def greedy(name, ids, graphs, op="GreedySearch", max_length=10, min_length=None, repetition=None, vocab=None, prefix=None, mask=None,
           presence=None, seed=None, **attributes):
    one = lambda x, dtype: None if x is None else np.array([x], dtype)
    operands = {"input_ids": np.array(ids, i32), "max_length": one(max_length, i32), "min_length": one(min_length, i32),
                "repetition_penalty": one(repetition, np.float32), "vocab_mask": vocab, "prefix_vocab_mask": prefix,
                "attention_mask": mask}
    if op == "Sampling":
        operands |= {"presence_mask": presence, "seed": one(seed, i32)}
    search(name, op, operands, graphs, **attributes)


TWO = [[3, 4, 5], [0, 6, 7]]
"""Two sequences, the second with padding on the left."""
THREE = [[1, 2, 3, 4], [0, 0, 8, 9], [5, 6, 7, 10]]
P = {"decoder": gpt()}
rng = np.random.default_rng(5)

NONE = 1000
"""No token, so that no sequence ends: ONNX Runtime leaves what it returns behind the end of all sequences undefined."""

# The most probable token.
greedy("greedy", TWO, P)
greedy("greedy_one", [[7]], P, max_length=6)
greedy("greedy_three", THREE, {"decoder": gpt(seed=2)}, max_length=12)
greedy("greedy_two_layers", TWO, {"decoder": gpt(seed=4, layers=2)})
greedy("greedy_one_token_more", TWO, P, max_length=4)
greedy("greedy_first_of_another_graph", TWO, {"decoder": gpt(), "init_decoder": gpt(seed=3, name="init_decoder")})
greedy("greedy_least_length", TWO, {"decoder": gpt(seed=3)}, min_length=9)
greedy("greedy_repetition", TWO, P, repetition=4.0)
greedy("greedy_reward", TWO, P, repetition=0.5)
greedy("greedy_ngrams", TWO, P, no_repeat_ngram_size=2, max_length=14, eos_token_id=NONE)
greedy("greedy_no_token_twice", TWO, P, no_repeat_ngram_size=1, eos_token_id=NONE)
greedy("greedy_vocabulary", TWO, P, vocab=np.array([1] * 10 + [0, 0], i32))
greedy("greedy_first_vocabulary", TWO, P, prefix=np.array([[1, 1, 1, 0] * 3, [0, 1] * 6], i32))
greedy("greedy_mask", [[3, 4, 5], [2, 6, 7]], P, mask=np.array([[1, 1, 1], [0, 1, 1]], i32))
greedy("greedy_mask_within", [[3, 4, 5], [2, 6, 7]], P, mask=np.array([[1, 0, 1], [1, 1, 1]], i32))
greedy("greedy_all", THREE, {"decoder": gpt(seed=6)}, min_length=6, repetition=1.3, no_repeat_ngram_size=3,
       vocab=np.array([1] * 11 + [0], i32), max_length=11)

# The most probable sequences.
beams("beams", TWO, P)
beams("beams_one", TWO, P, num_beams=1)
beams("beams_three", THREE, {"decoder": gpt(seed=2)}, num_beams=4, num_return=3, max_length=12)
beams("beams_two_layers", TWO, {"decoder": gpt(seed=4, layers=2)}, num_beams=2, num_return=2)
beams("beams_only_sequences", TWO, P, outputs=1)
beams("beams_sequences_and_scores", TWO, P, outputs=2)
beams("beams_one_token_more", TWO, P, max_length=4, num_return=3)
beams("beams_first_of_another_graph", TWO, {"decoder": gpt(), "init_decoder": gpt(seed=3, name="init_decoder")})
for penalty in [0.0, 0.5, 2.0, -1.0]:
    beams(f"beams_length_penalty_{penalty}", TWO, {"decoder": gpt(seed=8)}, length_penalty=penalty, num_return=2, outputs=2)
beams("beams_early", THREE, {"decoder": gpt(seed=2)}, early_stopping=1, num_return=2, outputs=2, max_length=14)
beams("beams_least_length", TWO, {"decoder": gpt(seed=3)}, min_length=9)
beams("beams_repetition", TWO, P, repetition=2.5)
beams("beams_ngrams", TWO, P, no_repeat_ngram_size=2, max_length=14)
beams("beams_vocabulary", TWO, P, vocab=np.array([1] * 10 + [0, 0], i32))
beams("beams_first_vocabulary", TWO, P, prefix=np.array([[1, 1, 1, 0] * 3, [0, 1] * 6], i32))
beams("beams_mask", [[3, 4, 5], [2, 6, 7]], P, mask=np.array([[1, 1, 1], [0, 1, 1]], i32))
beams("beams_fixed_length", TWO, P, constants={})
for end in range(V):
    beams(f"beams_end_{end}", [[3, 4, 5], [9, 6, 7], [2, 2, 8]], {"decoder": gpt(seed=end)}, eos_token_id=end, pad_token_id=(end + 1) % V,
          num_return=3, outputs=2, max_length=12)

# Encoders and decoders.
T5 = {"model_type": 1, "decoder_start_token_id": 2}
beams("t5", TWO, t5(), **T5)
beams("t5_without_the_encoder", TWO, t5(hidden=False), **T5)
beams("t5_one_beam", TWO, t5(seed=1), num_beams=1, **T5)
beams("t5_three", THREE, t5(seed=2), num_beams=4, num_return=2, **T5)
beams("t5_only_encodes", TWO, t5(seed=3, hidden=False, short=True), **T5)
beams("t5_mask", [[3, 4, 5], [2, 6, 7]], t5(seed=4), mask=np.array([[1, 1, 1], [0, 1, 1]], i32), **T5)
beams("t5_all", THREE, t5(seed=5), min_length=4, repetition=1.5, no_repeat_ngram_size=2, length_penalty=0.7, num_return=2, **T5)

# Caches that have room for all, and stay where they are: what follows is the same.
def same_as(name):
    return [numpy_helper.to_array(t) for t in f.models[name].graph.initializer if t.name.startswith("expected:")]


beams("gpt_plain", THREE, roomy("plain", 12), num_beams=4, num_return=3, max_length=12)
beams("gpt_room_shared", THREE, roomy("shared", 12), num_beams=4, num_return=3, max_length=12, expected=same_as("gpt_plain"))
# The scores of all tokens are left out: those of padding behind the end of all are of another cache.
beams("gpt_room_masked", THREE, roomy("masked", 12), num_beams=4, num_return=3, max_length=12, outputs=2, expected=same_as("gpt_plain")[:2])
greedy("gpt_plain_greedy", THREE, roomy("plain", 12), max_length=12)
greedy("gpt_room_shared_greedy", THREE, roomy("shared", 12), max_length=12, expected=same_as("gpt_plain_greedy"))
beams("t5_room", THREE, t5(seed=2, roomy=True), num_beams=4, num_return=2, expected=same_as("t5_three"), **T5)
beams("t5_room_one_beam", TWO, t5(seed=1, roomy=True), num_beams=1, expected=same_as("t5_one_beam"), **T5)
beams("t5_room_only_encodes", TWO, t5(seed=3, hidden=False, short=True, roomy=True), expected=same_as("t5_only_encodes"), **T5)

greedy("t5_greedy", TWO, t5(seed=1), expected=[same_as("t5_one_beam")[0][:, 0]], **T5)

# Operands that have an effect on speech alone.
beams("t5_begun", TWO, t5(), begin=[[2, 3], [2, 4]], **T5)
beams("t5_processor", TWO, t5(), processor=1, **T5)
beams("beams_begun", TWO, P, begin=[[2, 3], [2, 4]], processor=2)

# Speech.
speech("speech", heard(1, 2), [[2], [2]], whisper())
speech("speech_from_the_start", heard(1, 2), None, whisper())
speech("speech_one_beam", heard(2, 2), [[2, 3], [2, 4]], whisper(1), num_beams=1)
speech("speech_begun", heard(3, 3), [[2, 3, 5], [2, 4, 1], [6, 7, 8]], whisper(2), num_beams=4, num_return=2)
speech("speech_without_the_encoder", heard(3, 2), [[2, 3], [2, 4]], whisper(3, hidden=False))
speech("speech_all", heard(4, 3), [[2], [3], [4]], whisper(4), min_length=5, repetition=1.5, no_repeat_ngram_size=2, length_penalty=0.7, num_return=2,
       vocab=np.array([1] * 10 + [0, 1], i32), prefix=np.array([[1, 1, 1, 0] * 3, [0, 1] * 6, [1] * 12], i32), early_stopping=1)
speech("speech_of_beam_search", heard(5, 2), [[2, 3], [2, 4]], whisper(5), op="BeamSearch")
speech("speech_cold", heard(6, 2), [[2, 3], [2, 4]], whisper(6), temperature=0.5)
speech("speech_hot", heard(6, 2), [[2, 3], [2, 4]], whisper(6), temperature=2.5)
speech("speech_no_temperature", heard(6, 2), [[2, 3], [2, 4]], whisper(6), temperature=0.0)

MARKED = 90
"""The tokens of a model whose marks of time begin with 15."""
MARKS = {"eos_token_id": 8, "pad_token_id": 8, "decoder_start_token_id": 9, "translate_token_id": 10, "transcribe_token_id": 11,
         "start_of_lm_token_id": 12, "no_speech_token_id": 13, "no_timestamps_token_id": 14, "beginning_timestamp_token_id": 15}
marked = lambda seed: whisper(seed, tokens=MARKED)
for at, begin in enumerate([[9], [9, 3], [9, 20], [9, 3, 20], [9, 20, 21], [9, 20, 3], [9, 20, 3, 21], [9, 20, 3, 21, 21], [9, 20, 9, 3]]):
    speech(f"speech_marks_{'_'.join(map(str, begin))}", heard(at, 1), [begin], marked(at), processor=1, num_beams=2, num_return=2, **MARKS)
speech("speech_marks_of_two", heard(7, 2), [[9, 3], [9, 20]], marked(7), processor=1, num_beams=4, num_return=3, max_length=16, repetition=1.2, outputs=2, **MARKS)
speech("speech_no_marks", heard(7, 2), [[9, 3], [9, 20]], marked(7), processor=0, outputs=2, **MARKS)
speech("speech_other_processor", heard(7, 2), [[9, 3], [9, 20]], marked(7), processor=2, outputs=2, **MARKS)


def silent(sound, begin, graphs, token):
    """How probable silence is by the logits of the encoder. ONNX Runtime's CPU kernel leaves the result undefined."""
    import onnxruntime

    model = helper.make_model(graphs["encoder"], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    logits = session.run(["logits"], {"encoder_input_ids": sound, "decoder_input_ids": np.array(begin, i32)})[0][:, -1].astype(np.float64)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True))[:, token].astype(np.float32)


for token in [0, 13]:
    sound, begin, graphs = heard(8, 2), [[9, 3], [9, 20]], marked(8)
    attributes = MARKS | {"no_speech_token_id": token}
    speech(f"speech_{token}", sound, begin, graphs, outputs=1, **attributes)
    speech(f"speech_silence_{token}", sound, begin, graphs, outputs=["sequences", "", "", "", "non_speech_probs"],
           expected=[same_as(f"speech_{token}")[0], silent(sound, begin, graphs, token)], **attributes)

# Elements of 16 bits, in weights that have such values; ONNX Runtime's CPU kernels take 32 bits alone.
def halved(name, run, graphs, **how):
    run(f"{name}_wide", graphs=of_halves(graphs, kept=True), **how)
    expected = [x.astype(np.float16) if x.dtype == np.float32 else x for x in same_as(f"{name}_wide")]
    given = how | {"penalties": np.float16} if run is not greedy else how
    if "sound" in given:
        given["sound"] = given["sound"].astype(np.float16)
    run(name, graphs=of_halves(graphs), expected=expected, tolerance=2e-2, **given)


halved("halves_greedy", greedy, {"decoder": gpt(seed=2)}, ids=THREE)
halved("halves_beams", beams, {"decoder": gpt(seed=2)}, ids=THREE, outputs=2, num_return=2)
halved("halves_t5", beams, t5(seed=2), ids=THREE, outputs=2, **T5)
halved("halves_speech", speech, whisper(2), sound=heard(3, 2).astype(np.float16).astype(np.float32), begin=[[2, 3], [2, 4]], outputs=2)

# Draws that leave one token.
DRAWN = {"op": "Sampling", "seed": 3}
greedy("drawn", TWO, P, top_p=0.01, temperature=0.5, **DRAWN)
greedy("drawn_from_first", TWO, P, top_p=0.0001, custom=1, **DRAWN)
greedy("drawn_cold", TWO, P, top_p=0.9, temperature=0.001, **DRAWN)
greedy("drawn_repetition", TWO, P, top_p=0.01, repetition=3.0, **DRAWN)
greedy("drawn_ngrams", TWO, P, top_p=0.01, no_repeat_ngram_size=2, eos_token_id=NONE, **DRAWN)
greedy("drawn_vocabulary", TWO, P, top_p=0.01, vocab=np.array([1] * 10 + [0, 0], i32), **DRAWN)
greedy("drawn_no_seed", TWO, P, op="Sampling", top_p=0.01)

# Weights that are those of the graph around.
shared = weights(0)
f.add("greedy_captures", [helper.make_node("GreedySearch", ["input_ids", "max_length"], ["sequences"], domain="com.microsoft", eos_token_id=V - 1,
                                           pad_token_id=0, decoder=gpt(captured=("words", "out")))],
      {"input_ids": np.array(TWO, i32), "max_length": np.array([10], i32)}, outputs=["sequences"], opset=17, opsets=MS, expected="ort",
      constants={k: shared[k] for k in ("words", "out")})

# What is refused.
def refused(name, op, operands, graphs, **attributes):
    made = helper.make_node(op, list(operands), ["sequences"], domain="com.microsoft", **{"eos_token_id": V - 1, "pad_token_id": 0} | attributes, **graphs)
    f.add(f"refuses_{name}", [made], operands, outputs=["sequences"], opset=17, opsets=MS, fails=True)


ids = {"input_ids": np.array(TWO, i32)}
refused("short", "GreedySearch", ids | {"max_length": np.array([3], i32)}, P)
refused("no_decoder", "GreedySearch", ids | {"max_length": np.array([9], i32)}, {})
refused("no_encoder", "BeamSearch", ids | {"max_length": np.array([9], i32)}, P, model_type=1, decoder_start_token_id=2)
refused("unknown_attribute", "GreedySearch", ids | {"max_length": np.array([9], i32)}, P, heat=3)
refused("unknown_model", "GreedySearch", ids | {"max_length": np.array([9], i32)}, P, model_type=7)
refused("two_lengths", "GreedySearch", ids | {"max_length": np.array([9, 8], i32)}, P)
refused("more_than_are_followed", "BeamSearch", ids | {"max_length": np.array([9], i32), "min_length": np.array([1], i32), "num_beams": np.array([2], i32),
                                                     "num_return_sequences": np.array([3], i32)}, P)
refused("no_beams", "BeamSearch", ids | {"max_length": np.array([9], i32), "min_length": np.array([1], i32), "num_beams": np.array([0], i32)}, P)


def deaf(name, operands, outputs=("sequences",), **attributes):
    given = {"input_ids": heard(1, 1), "max_length": np.array([9], i32)} | operands
    full = ["input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty", "repetition_penalty", "vocab_mask",
            "prefix_vocab_mask", "attention_mask", "decoder_input_ids", "logits_processor", "cross_qk_layer_head", "extra_decoding_ids", "temperature"]
    names = [k if k in given else "" for k in full]
    while not names[-1]:
        names.pop()
    made = helper.make_node("WhisperBeamSearch", names, list(outputs), domain="com.microsoft",
                            **{"eos_token_id": V - 1, "pad_token_id": 0, "decoder_start_token_id": 2} | attributes, **whisper())
    f.add(f"refuses_speech_{name}", [made], given, outputs=list(outputs), opset=17, opsets=MS, fails=True)


deaf("of_another_model", {}, model_type=1)
deaf("that_is_no_sound", {"input_ids": np.ones((2, 3), np.float32)})
deaf("with_too_many_tokens", {"decoder_input_ids": np.ones((1, 9), i32)})
deaf("with_tokens_of_others", {"decoder_input_ids": np.ones((2, 3), i32)})
deaf("with_marks_that_are_none", {"logits_processor": np.array([1], i32)})
deaf("with_marks_beyond_all", {"logits_processor": np.array([1], i32)}, beginning_timestamp_token_id=V)
deaf("with_silence_beyond_all", {}, ("sequences", "", "", "", "non_speech_probs"), no_speech_token_id=V)
deaf("with_weights_of_attention", {}, ("sequences", "", "", "cross_qk"))
f.write()
