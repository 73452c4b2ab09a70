"""Greedy tokens of `generate` beside those of transformers: the same Llama and prompts, in one run.

    transformers_generate.py GENERATE_TEXT [THREADS [ROUNDS]]

The Llama has 0.13 billion parameters (12 layers of 768, 12 heads, feed-forward 2,048, vocabulary 32,000) in fp32, made by
transformers. Prompts of 32 tokens, 1 and 8 at a time, 64 new tokens each. Both sides run in turns on the same number of
threads; the best round of each counts. The first token, which reads the prompt, is shown apart from the others. Tokens must
be equal. Needs torch 2.13 and transformers 4.57.1.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

LENGTH, TOKENS = 32, 64
SHAPE = dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
             num_key_value_heads=12, max_position_embeddings=2048)


def prompts_of(count):
    return [[(7 * i + 13 * row + 1) % SHAPE["vocab_size"] for i in range(LENGTH)] for row in range(count)]


def theirs(model, prompts):
    import torch

    ids = torch.tensor(prompts)

    def timed(count):
        begin, cpu = time.time(), time.process_time()
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0)
        return time.time() - begin, time.process_time() - cpu, made[:, LENGTH:].tolist()

    first, first_cpu, _ = timed(1)
    total, total_cpu, tokens = timed(TOKENS)
    return dict(first_s=first, others_s=total - first, others_cpu_s=total_cpu - first_cpu, tokens=tokens)


def main():
    program = sys.argv[1]
    threads, rounds = (int(sys.argv[i]) if len(sys.argv) > i else other for i, other in ((2, 1), (3, 3)))
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch
    import transformers

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).eval()
    model.generation_config.eos_token_id = None
    with torch.no_grad():  # So that tokens follow from those before them.
        for parameter in model.parameters():
            parameter.mul_(2 if parameter.dim() > 1 else 1)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for count in (1, 8):
            sides = dict(ours=[], theirs=[])
            theirs(model, prompts_of(count))  # Not counted.
            for _ in range(rounds):
                sides["theirs"].append(theirs(model, prompts_of(count)))
                numbers = [str(number) for number in (count, LENGTH, TOKENS, threads)]
                out = subprocess.run([program, folder, *numbers], check=True, capture_output=True).stdout
                sides["ours"].append(json.loads(out))
            assert all(one["tokens"] == sides["theirs"][0]["tokens"] for side in sides.values() for one in side), "the tokens differ"
            best = {name: {key: min(one[key] for one in side) for key in ("first_s", "others_s", "others_cpu_s")} for name, side in sides.items()}
            rate = {name: count * (TOKENS - 1) / one["others_s"] for name, one in best.items()}
            cpu = {name: 1000 * one["others_cpu_s"] / (TOKENS - 1) for name, one in best.items()}
            print(f"{count} prompts, {threads} threads: ours {rate['ours']:.1f} tokens/s, transformers {rate['theirs']:.1f}: "
                  f"{rate['ours'] / rate['theirs']:.2f} times as many; "
                  f"CPU time of a step {cpu['ours']:.0f} ms, transformers {cpu['theirs']:.0f} ms: {cpu['theirs'] / cpu['ours']:.2f}; reading the prompts {1000 * best['ours']['first_s']:.0f} ms, "
                  f"transformers {1000 * best['theirs']['first_s']:.0f} ms", flush=True)


main()
