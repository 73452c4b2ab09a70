"""Texts of pipeline actions, with what PyTorch's own parser reads in them, as a table for golden_check.

    make_actions.py SEED COUNT > pipeline.actions.json

Half of the texts are actions with white space wherever PyTorch drops it; the others are such texts with up to
three characters changed, or characters at random.
"""
import json
import random
import sys

from torch.distributed.pipelining.schedules import _Action

TYPES = ["F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"]
ON_STAGES = TYPES[-3:]
ALPHABET = "0123456789FBIWSENDRCVUHALTOPG_();{},  \t\n\r\x0b\x0c\x1c\x1f-+xf\u00a0\u0663"


class Texts:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def blank(self):
        return "".join(self.random.choice(" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f") for _ in range(self.random.choice([0, 0, 0, 1, 2])))

    def number(self):
        return str(self.random.choice([0, 1, 2, 3, 10, 4711, "00", "007", 2**31 - 1, 2**31, 10**30]) if self.random.random() < 0.1
                   else self.random.randrange(8))

    def task(self):
        kind = self.random.choice(TYPES)
        microbatch = self.number() if (kind in ON_STAGES) == (self.random.random() < 0.05) else ""
        return self.number() + kind + microbatch

    def overlap(self):
        if self.random.random() < 0.6:
            parts = [f"{self.random.randrange(4)}F{self.number()}", f"{self.random.randrange(4, 8)}B{self.number()}"]
            self.random.shuffle(parts)
        else:
            parts = [self.task() for _ in range(self.random.choice([0, 1, 2, 2, 3]))]
        if self.random.random() < 0.2:
            parts.insert(self.random.randrange(len(parts) + 1), "")
        kind = "OVERLAP_F_B" if self.random.random() < 0.9 else self.random.choice(TYPES + ["NOPE", ""])
        return "(" + ";".join(self.blank() + part + self.blank() for part in parts) + ")" + kind

    def batch(self):
        ends = [self.number() + kind + self.number() for kind in ("SEND_F", "RECV_B")]
        return "{" + ",".join(ends) + "}"

    def action(self):
        kind = self.random.choices([self.task, self.overlap, self.batch, str], weights=[10, 12, 1, 1])[0]
        return self.blank() + kind() + self.blank()

    def changed(self, text):
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randint(0, len(text))
            new = self.random.choice(ALPHABET)
            text = self.random.choice([text[:at] + new + text[at:], text[:at] + text[at + 1:], text[:at] + new + text[at + 1:]])
        return text

    def any(self):
        if self.random.random() < 0.5:
            return self.action()
        if self.random.random() < 0.8:
            return self.changed(self.action())
        return "".join(self.random.choice(ALPHABET) for _ in range(self.random.randrange(8)))


def fields(action):
    if action is None:
        return None
    sub = action.sub_actions
    return {"stage": action.stage_index, "type": action.computation_type.value, "microbatch": action.microbatch_index,
            "sub": None if sub is None else [fields(part) for part in sub]}


def case(text):
    entry = {"id": "parse:" + ascii(text), "kind": "parse", "text": text}
    try:
        action = _Action.from_str(text)
    except Exception as error:  # Whatever it is, the peer does not take the text.
        return entry | {"error": {"type": type(error).__name__}}
    return entry | {"action": fields(action)} | ({} if action is None else {"repr": repr(action)})


texts = Texts(int(sys.argv[1]))
json.dump({"schema": 1, "small": [case(texts.any()) for _ in range(int(sys.argv[2]))]}, sys.stdout)
