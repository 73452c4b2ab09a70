"""Tokenizers trained by the `tokenizers` package, with its ids and texts, as a table for golden_check.

    make_tokenizers.py SEED TEXTS > tokenizer.random.json

Each kind of tokenizer.json that Tessera reads is there: those of GPT-2, Llama 2 and 3, Qwen and OLMo, and others with
unusual flags. Texts are fragments that are hard to tokenize and characters drawn from all of Unicode.
"""
import inspect
import json
import os
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

LETTERS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LETTERS_AND_CASE = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}]*[\p{Ll}\p{Lm}\p{Lo}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}]+"
                    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SAMPLE = [inspect.getsource(json.decoder), inspect.getsource(random), "Größe naïve façade cœur señor", "быстрая лиса и ленивая собака",
          "素早い茶色の狐が犬を飛び越える", "빠른 갈색 여우", "الثعلب البني السريع", "द क्विक ब्राउन फॉक्स", "🙂🙃👩‍👩‍👧‍👦🏳️‍🌈"]
FRAGMENTS = [
    "the", "self", "return", "random", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n ", "\x0b", "\x0c", "\x1c", "\x85", "\xa0",
    "\u180e", "\u200b", "\u2028", "\u2029", "\u202f", "\u3000", "\ufeff", "\0", "\x7f", "'s", "'S", "'ſ", "'re", "'LL", "'d'", "''", "’s",
    "7", "42", "123456", "1²", "٣٤", "Ⅷ", "½", "x1y", ".", "...", "!?\n", "/*", "*/", "_", "__init__", "$", "é", "e\u0301", "\u0323\u0307",
    "q\u0307\u0323", "Å", "Å", "\u1112\u1161\u11ab", "한", "中文", "ｶﾞ", "ß", "ſ", "İ", "ǅ", "ﬁ", "🙂", "👩‍👩‍👧", "🏳️‍🌈", "אב", "لا", "क्ष", "\U0001d7d8", "\U00020000",
    "▁", "Ġ", "Ċ", "<0x41>", "<0xE2>", "<unk>", "<s>", "</s>", "<s", "<s><s>", "<|end|>", "<|end|", " <|end|> ", "<think>", "</think>",
    "<mask>", " <mask>", "<mask> \n", "sum", "sums", "a sum b", "e\u0301 sum", "    ", "        ", "                "]
# Characters whose normal forms depend on the version of Unicode.
FRAGMENTS += ["\u07f3\u07fd", "\u0345\u1df6", "\u0345\u08ca", "\U00011935\U00011930", "\u32ff", "\U0001e030"]


def text_of(dice):
    parts = []
    for _ in range(dice.choice([0, 1, 2, 3, 8, 20, 40])):
        part = dice.choice(FRAGMENTS)
        if dice.random() < 0.3:
            # Blocks rather than all characters: most are Chinese ones, or none at all.
            block = dice.choice([0, 0, 0, 0x300, 0x900, 0x1100, 0x1e00, 0x2000, 0x3000, 0xac00, 0xfb00, 0xff00, 0x10000, 0x1d400, 0x1f600])
            part = chr(dice.choice([block + dice.randrange(256), dice.randrange(0xd800), dice.randrange(0xe000, 0x110000)]))
        parts.append(part)
    return "".join(parts)


def trained(model, special, changes=(), **parts):
    """A tokenizer of these parts. `changes` are made in its file, e.g. of what the trainer would not do."""
    made = Tokenizer(model)
    byte_level = isinstance(parts.get("decoder"), decoders.ByteLevel)
    for name, part in parts.items():
        setattr(made, name, part)
    fallback = [] if byte_level else [f"<0x{byte:02X}>" for byte in range(256)]
    made.train_from_iterator(SAMPLE, trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=fallback and ["<unk>", "<s>", "</s>"] + fallback, limit_alphabet=256 if byte_level else 100,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else []))
    document = json.loads(made.to_str())
    document["added_tokens"] = document["added_tokens"][:3]  # Bytes are no added tokens.
    for change in changes:
        change(document)
    made = Tokenizer.from_str(json.dumps(document))
    made.add_tokens(special)
    return made


def template(*pieces):
    """Puts these tokens, which the tokenizer has, around a text."""
    def put(made):
        names = [piece for piece in pieces if piece != "$A"]
        made.post_processor = processors.TemplateProcessing(
            single=" ".join(pieces), pair="$A $B:1", special_tokens=[(name, made.token_to_id(name)) for name in names])
        return made
    return put


def drop_merges(document):
    """Tokens that no merge makes: only ignore_merges finds them."""
    merges = document["model"]["merges"]
    document["model"]["merges"] = [merge for i, merge in enumerate(merges) if i % 5 != 4]


def merges_as_texts(document):
    document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]


def no_split(document):
    document["pre_tokenizer"]["split"] = False


END = AddedToken("<|end|>", special=True, normalized=False)
THINK = [AddedToken(name, special=False, normalized=False) for name in ("<think>", "</think>")]
FLAGS = [AddedToken("<mask>", special=True, lstrip=True, rstrip=True, normalized=False), AddedToken("sum", single_word=True, normalized=True),
         AddedToken("e\u0301", normalized=True), AddedToken("<|end|><|end|>", special=True)]
SPACES = [AddedToken(" " * width, normalized=True, special=False) for width in (4, 8, 16)]


def kinds():
    """Name to tokenizer."""
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def split(pattern, behavior="isolated", invert=False):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior, invert), bytes_only])

    def byte_level(pre_tokenizer, special=(END,), changes=(), ignore_merges=False, **parts):
        return trained(models.BPE(ignore_merges=ignore_merges), list(special), changes, pre_tokenizer=pre_tokenizer, decoder=decoders.ByteLevel(), **parts)

    def fallback(special=(END,), changes=(), fuse=True, **parts):
        decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        return trained(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=True), list(special), changes, **{"decoder": decoder, **parts})

    def without_bytes(fuse):
        def change(document):
            document["model"]["byte_fallback"] = False
        return fallback(changes=[change], fuse=fuse, pre_tokenizer=pre_tokenizers.Metaspace())

    first = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    legacy = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "gpt2", byte_level(gpt2, post_processor=processors.ByteLevel(trim_offsets=False), changes=[merges_as_texts])
    yield "gpt2_space", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), [END, *FLAGS])
    yield "llama3", template("<|end|>", "$A")(byte_level(split(LETTERS % "{1,3}"), changes=[drop_merges], ignore_merges=True))
    yield "llama3_merges", template("$A", "<|end|>")(byte_level(split(LETTERS % "{1,3}"), [END, *FLAGS], [drop_merges]))
    yield "qwen", byte_level(split(LETTERS % ""), [END, *THINK], normalizer=normalizers.NFC())
    yield "qwen_flags", byte_level(split(LETTERS % ""), [END, *THINK, *FLAGS], normalizer=normalizers.NFC())
    yield "olmo", template("$A", "<|end|>")(byte_level(gpt2, [END, *SPACES], normalizer=normalizers.NFC()))
    yield "olmo2", byte_level(split(LETTERS % "{1,3}"))
    yield "case", byte_level(split(LETTERS_AND_CASE))
    yield "removed", byte_level(split(LETTERS % "", "removed", True))
    yield "digits", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2]))
    for behavior in ("merged_with_previous", "merged_with_next", "contiguous"):
        yield behavior, byte_level(split(r"\s+|\p{P}", behavior))
    yield "llama2", template("<s>", "$A")(fallback(changes=[no_split], pre_tokenizer=first))
    yield "llama2_legacy", template("<s>", "$A", "</s>")(fallback([END, *FLAGS], normalizer=legacy))
    yield "metaspace", fallback(fuse=False, pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace())
    yield "metaspace_never", fallback([*THINK, *FLAGS], pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="never"))
    yield "no_bytes", without_bytes(fuse=True)
    yield "no_bytes_unfused", without_bytes(fuse=False)


def answers(made, text):
    ids = made.encode(text).ids
    return {"ids": ids, "decoded": made.decode(ids), "decoded_all": made.decode(ids, skip_special_tokens=False)}


def main():
    dice = random.Random(int(sys.argv[1]))
    count = int(sys.argv[2])
    made = dict(kinds())
    cases, decode = [], []
    for i in range(count):
        text = text_of(dice)
        cases.append({"id": f"text {i}", "text": text, "expect": {name: answers(one, text) for name, one in made.items()}})
        for name, one in made.items():
            if i % 4 == 0:
                ids = [dice.randrange(one.get_vocab_size()) for _ in range(dice.randrange(12))]
                decode.append({"id": f"ids {i} of {name}", "tokenizer": name, "ids": ids, "decoded": one.decode(ids),
                               "decoded_all": one.decode(ids, skip_special_tokens=False)})
    documents = {name: json.loads(one.to_str()) for name, one in made.items()}
    json.dump({"schema": 1, "tokenizers": documents, "cases": cases, "decode": decode}, sys.stdout)


main()
