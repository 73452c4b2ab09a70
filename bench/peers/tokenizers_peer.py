"""tokenizers_peer.py TESSERA [MEGABYTES]: `tessera tokenize` beside the `tokenizers` package, two threads each, in turns.

The texts are Python and C++ sources of this interpreter's packages and of the system, in files of about 1 MB. The
tokenizers, of the kinds of Llama 3, Qwen and Llama 2, are trained on the first 8 MB. Ids must be equal.
"""
import array
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "2"
os.environ["TOKENIZERS_PARALLELISM"] = "true"

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers, Regex  # noqa: E402

LETTERS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MB = 1_000_000


def texts(megabytes):
    """Texts of about 1 MB each."""
    made, part = [], ""
    for root in [*sys.path, "/usr/include", "/usr/share"]:
        for path in sorted(pathlib.Path(root).rglob("*") if os.path.isdir(root) else []):
            if path.suffix not in {".py", ".h", ".hpp", ".txt", ".md", ".html", ".pm"} or not path.is_file():
                continue
            try:
                part += path.read_bytes().decode()
            except (UnicodeDecodeError, OSError):
                continue
            if len(part) >= MB:
                made.append(part)
                part = ""
            if len(made) >= megabytes:
                return made
    return made


def byte_level(digits, normalizer, sample):
    made = Tokenizer(models.BPE(ignore_merges=normalizer is None))
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LETTERS % digits), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(sample, trainers.BpeTrainer(
        vocab_size=32000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_special_tokens(["<end>"])
    return made


def metaspace(sample):
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    made.train_from_iterator(sample, trainers.BpeTrainer(
        vocab_size=32000, limit_alphabet=300, show_progress=False,
        special_tokens=["<unk>", "<end>"] + [f"<0x{byte:02X}>" for byte in range(256)]))
    document = json.loads(made.to_str())
    document["pre_tokenizer"]["split"] = False
    document["added_tokens"] = document["added_tokens"][:2]
    return Tokenizer.from_str(json.dumps(document))


def timed(body):
    """Wall and CPU seconds, child processes included, and what the body returns."""
    def cpu():
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    begin, used = time.time(), cpu()
    result = body()
    return time.time() - begin, cpu() - used, result


def theirs(made, documents, end):
    ids = array.array("H")
    for first in range(0, len(documents), 16):
        for encoding in made.encode_batch_fast(documents[first:first + 16]):
            ids.extend(encoding.ids)
            ids.append(end)
    return ids


def main():
    tessera, megabytes = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    documents = texts(megabytes)
    size = sum(len(text.encode()) for text in documents) / MB
    sample = [line for text in documents[:8] for line in text.splitlines(True)]
    kinds = {"Llama 3": lambda: byte_level("{1,3}", None, sample),
             "Qwen": lambda: byte_level("", normalizers.NFC(), sample),
             "Llama 2": lambda: metaspace(sample)}
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        (folder / "in").mkdir()
        for i, text in enumerate(documents):
            (folder / "in" / f"{i:04}.txt").write_bytes(text.encode())
        for kind, make in kinds.items():
            made = make()
            end = made.token_to_id("<end>")
            made.save(str(folder / "tokenizer.json"))
            command = [tessera, "tokenize", "--model", work, "--in", str(folder / "in"), "--out",
                       str(folder / "tokens.bin"), "--eos", "<end>", "--threads", "2", "--restart"]
            ours = timed(lambda: subprocess.run(command, check=True, capture_output=True))
            peer = timed(lambda: theirs(made, documents, end))
            ids = array.array("H", (folder / "tokens.bin").read_bytes())
            assert ids == peer[2], f"{kind}: the ids differ"
            print(f"{kind}: {size:.0f} MB, {len(ids):,} tokens; tessera {ours[0]:.1f} s ({ours[1]:.1f} s CPU), "
                  f"tokenizers {peer[0]:.1f} s ({peer[1]:.1f} s CPU): {peer[0] / ours[0]:.1f} times as fast", flush=True)


main()
