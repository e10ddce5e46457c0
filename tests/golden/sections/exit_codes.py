"""Valid and invalid command lines: exit code, and whether there is text on stdout and on stderr.

Each line runs in this process, a few in separate ones. The lines of a group run in order, in one folder.
"err" is "none", "one" (line), "several", "usage" (refused by the parser) or "traceback" (a bug).
`{data}`, `{fake}`: the real test data, and the fake world without physics.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

from command_lines import FAKE_WORLD, CommandResult, in_workspace, programs, run_in_process
from workspace import BIN, Workspace

COST = "minutes"

GENERAL = """
ad2
ad2 --version
ad2 --help
ad2 nonsense
ad2 --nonsense
ad2 tasks --nonsense
ad2 data
ad2 judge
ad2 drivelm
ad2 drive
ad2 drive routes
ad2 threats
ad2 carla
ad2 robot
ad2 mcq
ad2 export
ad2 annotate
ad2 data nonsense
ad2 tasks
ad2 tasks 'ad2_*'
ad2 tasks 'nothing*'
ad2 tasks --json
ad2 tasks --js
ad2 tasks a b
ad2 demo --out file.txt --open-loop
"""
DATA = """
ad2 data list
ad2 data list --json
ad2 data schema
ad2 data schema coda_lm
ad2 data schema coda
ad2 data import
ad2 data import drivelm
ad2 data import nonsense {data}/drivelm/train_sample.json
ad2 data import drivelm missing.json
ad2 data import drivelm not.json --images empty
ad2 data import drivelm {data}/drivelm/train_sample.json --images missing
ad2 data import drivelm {data}/drivelm/train_sample.json --images {data}/drivelm/images --split ../up
ad2 data import drivelm {data}/drivelm/train_sample.json --images {data}/drivelm/images --as 'a b'
ad2 data import drivelm {data}/drivelm/train_sample.json --images {data}/drivelm/images --format nonsense
ad2 data import drivelm {data}/drivelm/train_sample.json --images {data}/drivelm/images --split train
ad2 data import drivelm {data}/drivelm/train_sample.json --images {data}/drivelm/images --split train
ad2 data import drivelm {data}/drivelm/train_sample.json --images {data}/drivelm/images --split test --check-images
ad2 data import records bad.jsonl --split test
ad2 data import records bad.jsonl --split test --skip-bad
ad2 data import records empty.jsonl --split test
ad2 data list
ad2 data verify
ad2 data verify drivelm
ad2 data verify drivelm --split train --json
ad2 data verify drivelm --split train --images
ad2 data verify drivelm --split val
ad2 data verify nonsense
ad2 data relocate drivelm
ad2 data relocate drivelm --images missing
ad2 data relocate drivelm --images empty
ad2 data verify drivelm --images
ad2 data relocate drivelm --images {data}/drivelm/images
ad2 data relocate nonsense --images empty
ad2 export swift --tasks 'ad2x_drivelm_*' --split train --out train.jsonl
ad2 export swift --tasks 'ad2x_drivelm_*' --split train --out train.jsonl --drop-leaks --limit 3
ad2 export swift --tasks 'ad2x_drivelm_*' --split train --out train.txt
ad2 export swift --tasks 'ad2x_drivelm_*' --split train --out train.jsonl --limit 0
ad2 export swift --tasks 'ad2x_drivelm_*' --split val --out train.jsonl
ad2 export swift --tasks nonsense --out train.jsonl
ad2 export swift --tasks , --out train.jsonl
ad2 export swift --tasks ad2drive_demo --out train.jsonl
ad2 export swift --out train.jsonl
"""
OPEN_LOOP = """
ad2 eval
ad2 eval --model ad2_chance
ad2 eval --model ad2_chanse --tasks ad2demo_relation --out e
ad2 eval --model ad2_chance --tasks ad2demo_relatoin --out e
ad2 eval --model ad2_chance --tasks 'ad2x_coda*' --out e
ad2 eval --model ad2_chance --tasks ad2demo_relation --out file.txt
ad2 eval --model ad2_chance --tasks ad2demo_relation --out file.txt/below
ad2 eval --model ad2_chance --tasks ad2demo_relation --out e --limit x
ad2 report
ad2 report missing
ad2 report empty
ad2 report file.txt
ad2 report evaluated
ad2 report evaluated --json
ad2 report evaluated --markdown
ad2 report evaluated --markdown --json
ad2 report evaluated --breakdowns --no-published
ad2 report evaluated --html page.html
ad2 report evaluated --html new/deep/page.html
ad2 report evaluated --html empty
ad2 report evaluated --force
ad2 report evaluated --distractors a b
ad2 report evaluated --distractors a
ad2 rescore
ad2 rescore missing
ad2 rescore empty
ad2 rescore evaluated --judge nonsense
ad2 rescore evaluated --judge fake:score=x
ad2 rescore evaluated --judge missing.yaml
ad2 rescore evaluated --judge bad.yaml
ad2 rescore evaluated --frame nonsense
ad2 rescore evaluated --judge openai
ad2 rescore evaluated --judge openai:model=m,api_key=secret
ad2 rescore evaluated --judge fake --out again
ad2 rescore evaluated --judge fake --frame pixel --out pixel
ad2 report compare evaluated
ad2 report compare evaluated evaluated
ad2 report compare evaluated missing
ad2 report compare evaluated again
ad2 report compare evaluated again --json
ad2 report compare evaluated again --force
ad2 report compare evaluated again --html page.html
ad2 report compare evaluated --distractors a b
ad2 judge rate missing.jsonl --judge lexical --out rated.jsonl
ad2 judge rate bad.jsonl --judge lexical --out rated.jsonl
ad2 judge rate items.jsonl --judge lexical --out rated.jsonl
ad2 judge rate items.jsonl --judge fake:score=3 --out faked.jsonl
ad2 judge rate items.jsonl --judge fake:score=30 --out other.jsonl
ad2 judge rate items.jsonl --judge embedding --out other.jsonl
ad2 judge rate items.jsonl --judge openai:model=m,base_url=nonsense --out other.jsonl
ad2 judge rate items.jsonl --judge lexical
ad2 judge agree rated.jsonl missing.jsonl
ad2 judge agree rated.jsonl human.jsonl
ad2 judge agree rated.jsonl human.jsonl --json
ad2 judge agree rated.jsonl empty.jsonl
ad2 drivelm score
ad2 drivelm score {data}/drivelm/output.json
ad2 drivelm score {data}/drivelm/output.json --truth {data}/drivelm/test_eval.json --tokenizer plain
ad2 drivelm score {data}/drivelm/output.json --truth {data}/drivelm/test_eval.json --tokenizer plain --json
ad2 drivelm score {data}/drivelm/output.json --truth {data}/drivelm/test_eval.json --tokenizer nonsense
ad2 drivelm score missing.json --truth {data}/drivelm/test_eval.json
ad2 drivelm score not.json --truth {data}/drivelm/test_eval.json
ad2 drivelm score {data}/drivelm/output.json --truth list.json
lmms_eval --model ad2_chanse --tasks ad2demo_relation
lmms_eval --model ad2_chance --tasks ad2demo_relatoin
lmms_eval --model ad2_chance --tasks 'ad2x_coda*'
lmms_eval --model ad2_chance --tasks=ad2demo_relation --output_path=file.txt
"""
MCQ = """
ad2 mcq build
ad2 mcq build --source drivelm:train --out b
ad2 mcq build --source nonsense --llm rules --out b --no-progress
ad2 mcq build --source drivelm:val --llm rules --out b --no-progress
ad2 mcq build --source drivelm=missing.json --llm rules --out b --no-progress
ad2 mcq build --source drivelm:train --source drivelm:train --llm rules --out b --no-progress
ad2 mcq build --source drivelm:train --llm nonsense --out b --no-progress
ad2 mcq build --source drivelm:train --llm openai --out b --no-progress
ad2 mcq build --source drivelm:train --llm rules --evaluator rules --out b --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --total 0
ad2 mcq build --source drivelm:train --llm rules --out b --limit -1
ad2 mcq build --source drivelm:train --llm rules --out b --total x
ad2 mcq build --source drivelm:train --llm rules --out b --mix drivelm=2 --total 5 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --mix nonsense=1 --total 5 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --tasks perception=0.5 --total 5 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --distractors nonsense --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --n 0 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --rounds -1 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --threshold 6 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --views nonsense
ad2 mcq build --source drivelm:train --llm rules --out b --split nonsense=test --no-progress
ad2 mcq build --source drivelm:train --llm rules --out b --prompts missing.yaml --no-progress
ad2 mcq build --source drivelm:train --llm rules --out file.txt --no-progress
ad2 mcq build --source drivelm:train --llm rules --out built --total 24 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out built --total 24 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out built --total 12 --seed 3 --no-progress
ad2 mcq build --source drivelm:train --llm rules --out many --total 100000 --no-progress
ad2 mcq check
ad2 mcq check missing.jsonl --no-progress
ad2 mcq check built --no-progress
ad2 mcq check built --no-progress --json --out checked.json
ad2 mcq check built --no-progress --sample 0
ad2 mcq check built --no-progress --rotations 0
ad2 mcq check built --no-progress --rotations 5
ad2 mcq check built --no-progress --prompts p.yaml
ad2 mcq check built --no-progress --llm nonsense
ad2 mcq check bad.jsonl --no-progress
ad2 mcq check empty.jsonl --no-progress
ad2 mcq split missing.jsonl
ad2 mcq split built/questions.jsonl --test 0.5 --out halves
ad2 mcq split built/questions.jsonl --test 0
ad2 mcq split built/questions.jsonl --test 1
ad2 mcq split built/questions.jsonl --test nan
ad2 mcq split built/questions.jsonl --test x
ad2 mcq split bad.jsonl --out halves
ad2 annotate
ad2 annotate sample_coda_lm
ad2 annotate sample_coda_lm --out notes --no-page --reviewer anna --limit 2
ad2 annotate sample_coda_lm --out notes --no-page --reviewer anna --limit 2
ad2 annotate sample_coda_lm --out notes --no-page --limit 3
ad2 annotate page sample_coda_lm --out notes2 --no-page --limit 0
ad2 annotate missing --out notes3 --no-page
ad2 annotate sample_coda_lm --out notes3 --no-page --ask nonsense
ad2 annotate sample_coda_lm --out notes3 --no-page --port 70000
ad2 annotate sample_coda_lm --out notes3 --no-page --scale 7
ad2 annotate sample_coda_lm --out notes3 --no-page --lang de
ad2 annotate sample_coda_lm --out notes3 --no-page --boxes missing.json
ad2 annotate sample_coda_lm --out notes3 --no-page --pre nonsense
ad2 annotate sample_coda_lm --out file.txt --no-page
ad2 annotate export notes --out e.jsonl
ad2 annotate export notes --out e.jsonl --reviewer anna
ad2 annotate export notes --out e.jsonl --reviewer nobody
ad2 annotate export notes --out e.jsonl --reviewer anna --merge majority
ad2 annotate export missing --out e.jsonl
ad2 annotate agreement notes
ad2 annotate agreement notes --json
ad2 annotate agreement empty
"""
DRIVE = """
ad2 drive run
ad2 drive run --agent still --out d
ad2 drive run --suite demo --out d --world {fake}
ad2 drive run --suite demo --agent still --world {fake}
ad2 drive run --suite demo --scenario f.scenic --agent still --out d --world {fake}
ad2 drive run --suite demo --agent nonsense --out d --world {fake}
ad2 drive run --suite demo --agent exprt --out d --world {fake}
ad2 drive run --suite nonsense --agent still --out d --world {fake}
ad2 drive run --suite embedded220 --agent still --out d
ad2 drive run --suite bench2drive220 --agent still --out d
ad2 drive run --suite empty --agent still --out d --world {fake}
ad2 drive run --suite not.json --agent still --out d --world {fake}
ad2 drive run --scenario missing.scenic --agent still --out d
ad2 drive run --scenario empty.scenic --agent still --out d
ad2 drive run --suite demo --agent still --out d --world nonsense
ad2 drive run --suite demo --agent still --out d --world no.such:World
ad2 drive run --suite demo --agent still --out d --world {fake} --servers localhost:2000
ad2 drive run --suite demo --agent still --out d --world carla --servers nonsense
ad2 drive run --suite demo --agent still --out d --world {fake} --limit 0
ad2 drive run --suite demo --agent still --out d --world {fake} --limit x
ad2 drive run --suite demo --agent still --out d --world {fake} --repetitions 0
ad2 drive run --suite demo --agent still --out d --world {fake} --retries -1
ad2 drive run --suite demo --agent still --out d --world {fake} --workers 0
ad2 drive run --suite demo --agent still --out seeded --world {fake} --seed -1
ad2 drive run --suite demo --agent still --out d --world {fake} --shard 3/2
ad2 drive run --suite demo --agent still --out d --world {fake} --shard x
ad2 drive run --suite demo --agent still --out d --world {fake} --routes-ids 999
ad2 drive run --suite demo --agent still --out d --world {fake} --routes-ids ' , '
ad2 drive run --suite demo --agent still --out d --world {fake} --decision-hz 0
ad2 drive run --suite demo --agent still --out d --world {fake} --decision-hz 1000
ad2 drive run --suite demo --agent still --out d --world {fake} --size 8
ad2 drive run --suite demo --agent still --out d --world {fake} --mode cng
ad2 drive run --suite demo --agent still --out d --world {fake} --mode nonsense
ad2 drive run --suite demo --agent still --out d --world {fake} --mode hybrid
ad2 drive run --suite demo --agent still --out d --world {fake} --interpreter rules
ad2 drive run --suite demo --agent still --out d --world {fake} --profile nonsense
ad2 drive run --suite demo --agent still --out d --world {fake} --latency nonsense
ad2 drive run --suite demo --agent still --out d --world {fake} --latency -1
ad2 drive run --suite demo --agent still --out d --world {fake} --tasks action
ad2 drive run --suite demo --agent still --out d --world {fake} --prompts missing.yaml
ad2 drive run --suite demo --agent still --out d --world {fake} --map m.xodr
ad2 drive run --suite demo --agent still --out d --world {fake} --set a=1
ad2 drive run --suite demo --agent still --out d --world {fake} --towns missing
ad2 drive run --suite demo --agent still --out d --world {fake} --world-timeout -1
ad2 drive run --suite demo --agent endpoint: --out d --world {fake}
ad2 drive run --suite demo --agent endpoint:m@http://127.0.0.1:9/v1,max_retries=0 --out d --world {fake}
ad2 drive run --suite demo --agent endpoint:m@http://127.0.0.1:9/v1,api_key=x --out d --world {fake}
ad2 drive run --suite demo --agent endpoint:m@http://127.0.0.1:9/v1,nonsense=1 --out d --world {fake}
ad2 drive run --suite demo --agent endpoint:m@http://127.0.0.1:9/v1,timeout=x --out d --world {fake}
ad2 drive run --suite demo --agent endpoint:m@http://127.0.0.1:9/v1 --mode dcs --out d --world {fake}
ad2 drive run --suite demo --agent endpoint:m@http://127.0.0.1:9/v1 --describer offline --out d --world {fake}
ad2 drive run --suite demo --agent still --out file.txt --world {fake}
ad2 drive run --suite demo --agent still --out driven --world {fake} --routes-ids 101
ad2 drive run --suite demo --agent still --out driven --world {fake} --routes-ids 101
ad2 drive run --suite demo --agent still --out driven --world {fake} --routes-ids 101 --seed 5
ad2 drive run --suite demo --agent straight --out driven2 --world {fake} --routes-ids 101
ad2 drive run --suite demo --agent straight --out half --world {fake} --shard 1/2
ad2 drive score driven
ad2 drive score driven --routes demo
ad2 drive score driven --routes demo --json
ad2 drive score driven --routes nonsense
ad2 drive score missing --routes demo
ad2 drive score driven driven2 --routes demo
ad2 drive score driven driven2 --routes demo --apart
ad2 drive score driven --routes demo --repetitions 0
ad2 drive score driven --routes demo --comfort nonsense
ad2 drive score {data}/bench2drive/pdm_lite_results.json --routes {data}/bench2drive/bench2drive220.xml
ad2 drive score {data}/bench2drive/pdm_lite_results.json --routes {data}/bench2drive/bench2drive220.xml --json
ad2 drive show
ad2 drive show driven:101
ad2 drive show driven:102
ad2 drive show missing:101
ad2 drive show driven
ad2 drive show driven:101 --frames 0
ad2 drive show driven:101 --out show.txt
ad2 drive show driven:101 --camera nonsense
ad2 merge merged driven
ad2 merge merged driven driven2
ad2 merge driven driven half
ad2 merge merged missing half
ad2 merge merged2 half half
ad2 drive routes list
ad2 drive routes add missing.xml
ad2 drive routes add not.json
ad2 drive routes add {data}/bench2drive/bench2drive220.xml
ad2 drive routes add {data}/bench2drive/bench2drive_dev10.xml --name 'a b'
ad2 drive routes add {data}/bench2drive/bench2drive_dev10.xml --name demo
ad2 drive routes add {data}/bench2drive/bench2drive_dev10.xml --name dev10
ad2 drive routes list
ad2 drive score {data}/bench2drive/pdm_lite_results.json --routes embedded220
ad2 drive map --out m.xodr
ad2 drive map --routes missing.xml --out m.xodr
ad2 drive map --routes {data}/bench2drive/bench2drive_dev10.xml --route 99999 --out m.xodr
ad2 drive map --routes {data}/bench2drive/bench2drive_dev10.xml --server localhost:9 --timeout 1 --out m.xodr
ad2 drive map --server nonsense --out m.xodr
ad2 report driven
ad2 report driven driven2 --json
ad2 report compare driven driven2
ad2 report compare driven driven2 --json
ad2 report compare driven driven
ad2 report compare driven empty
"""
THREATS_AND_CARLA = """
ad2 threats generate
ad2 threats generate --suite demo --agent still --fuser rules --out t --limit 1 --no-check
ad2 threats generate --suite nonsense --agent endpoint:m@http://127.0.0.1:9/v1 --fuser rules --out t
ad2 threats generate --suite demo --agent nonsense --fuser rules --out t
ad2 threats generate --suite demo --agent endpoint:m@http://127.0.0.1:9/v1,max_retries=0 --fuser rules --out t
ad2 threats generate --suite demo --agent endpoint:m@http://127.0.0.1:9/v1 --fuser nonsense --out t
ad2 threats generate --suite demo --agent endpoint:m@http://127.0.0.1:9/v1 --fuser rules --out t --limit 0
ad2 threats generate --suite demo --agent endpoint:m@http://127.0.0.1:9/v1 --fuser rules --out t --frames 0
ad2 threats generate --suite demo --agent endpoint:m@http://127.0.0.1:9/v1 --fuser rules --out file.txt
ad2 threats check
ad2 threats check missing.scenic
ad2 threats check empty
ad2 threats check empty.scenic
ad2 threats check {repo}/configs/scenarios/lost_load.scenic --tries 0
ad2 threats check {repo}/configs/scenarios/lost_load.scenic --agent nonsense
ad2 threats check {repo}/configs/scenarios/lost_load.scenic --route nonsense
ad2 threats check {repo}/configs/scenarios/lost_load.scenic --route demo:999
ad2 threats search missing.scenic --agent still --out s
ad2 threats search {repo}/configs/scenarios/lost_load.scenic --agent still --out s --budget 0
ad2 threats search {repo}/configs/scenarios/lost_load.scenic --agent still --out s --sampler nonsense
ad2 threats search {repo}/configs/scenarios/lost_load.scenic --agent nonsense --out s
ad2 threats search {repo}/configs/scenarios/lost_load.scenic --agent still --out s --set a
ad2 threats gallery
ad2 threats gallery missing
ad2 threats gallery empty
ad2 carla up
ad2 carla up --binary missing.sh
ad2 carla up --binary missing.sh --image i
ad2 carla up --binary file.txt --ports x
ad2 carla up --binary file.txt --ports 2000,2000
ad2 carla up --binary file.txt --ports 2000,2001
ad2 carla up --binary file.txt --gpus x
ad2 carla up --binary file.txt --wait 0
ad2 carla up --binary file.txt --hang nan
ad2 carla up --binary file.txt --extra '"'
ad2 carla up --image i --container-engine nonsense
ad2 carla status --timeout 0
ad2 carla status
ad2 carla status --json
ad2 carla status --servers nonsense
ad2 carla status --servers 127.0.0.1:9 --timeout 2
ad2 carla down
ad2 carla down --port 2000
ad2 carla down --port x
ad2 serve
ad2 serve --model nonsense
ad2 serve --model endpoint:m@http://127.0.0.1:9/v1,max_retries=0
ad2 serve --model still --port 70000
ad2 serve --model still --port -1
ad2 serve --model still --batch 0
ad2 serve --model still --queue 0
ad2 serve --model still --window-ms -1
ad2 serve --model still --max-body-mb 0
ad2 serve --model still --max-body-mb nan
ad2 serve --model still --api-key-env NOT_SET_HERE
ad2 serve --model still --profile nonsense
ad2 serve --model still --mode cng
ad2 serve --model expert
"""
ROBOT = """
ad2 robot plan
ad2 robot plan --robot nonsense --agent still
ad2 robot plan --robot sandbox --agent nonsense
ad2 robot plan --robot sandbox --agent expert
ad2 robot plan --robot missing.yaml --agent still
ad2 robot plan --robot bad.yaml --agent still
ad2 robot plan --robot limo-ackermann --agent still
ad2 robot plan --robot sandbox --agent still --token-file missing.token --no-tunnel
ad2 robot plan --robot sandbox --agent still --port 70000 --no-tunnel
ad2 robot run --out r
ad2 robot run --agent still
ad2 robot run --agent nonsense --out r
ad2 robot run --agent expert --out r
ad2 robot run --agent still --out r --course nonsense
ad2 robot run --agent still --out r --segments nonsense
ad2 robot run --agent still --out r --runs 0
ad2 robot run --agent still --out r --robot nonsense
ad2 robot run --agent still --out r --transport nonsense
ad2 robot run --agent still --out r --tunnel
ad2 robot run --agent still --out r --mode cng
ad2 robot run --agent track-expert --out r --transport vehicle
ad2 robot run --agent track-expert --out r --profile nonsense
ad2 robot run --agent still --out file.txt
ad2 robot run --agent still --segments route1 --runs 1 --out course
ad2 robot run --agent still --segments route1 --runs 1 --out course
ad2 robot run --agent still --segments route1 --runs 1 --out course --seed 3
ad2 robot stop
ad2 robot stop --robot nonsense
ad2 robot stop --robot limo-ackermann
ad2 robot deploy
ad2 robot deploy nonsense --dry-run
ad2 robot deploy limo-ackermann
ad2 robot deploy limo-ackermann me@host --dry-run
ad2 robot deploy limo-ackermann --dry-run
ad2 robot console
ad2 robot console --robot nonsense
ad2 robot sandbox --robot nonsense
ad2 robot sandbox --robot jetbot-dusty-ros2
"""
OTHERS = """
fake endpoint --port x
fake endpoint --failures nonsense
fake endpoint --reply 'rating:x' --per-second x
fake endpoint --per-second x
advlm_server
advlm_server missing.py:answer
advlm_server answers.py
advlm_server answers.py:nothing
advlm_server answers.py:answer --port 70000
advlm_server answers.py:answer --workers 0
advlm_server answers.py:answer --api-key-env NOT_SET_HERE
advlm_server --config missing.json
advlm_server --config list.json
advlm_server answers.py:answer --check --cameras a,b
install.py --nonsense
torchvision_shim.py --nonsense
verify_carla.py --nonsense
verify_carla.py nonsense
verify_carla.py 127.0.0.1:9
onboard client
onboard client missing.json
onboard client not.json
onboard client a b
onboard relay
onboard relay --stop
onboard relay --stop missing.json
onboard relay --nonsense not.json
"""
GROUPS = {
    "general": GENERAL, "data": DATA, "open loop": OPEN_LOOP, "mcq and annotate": MCQ, "drive": DRIVE,
    "threats, carla, serve": THREATS_AND_CARLA, "robot": ROBOT, "others": OTHERS,
}  # fmt: skip
# In separate processes: the installed commands as a shell runs them.
REAL = (
    "ad2 --version", "ad2", "ad2 nonsense", "ad2 tasks", "ad2 report missing",
    "ad2 drive run --suite nonsense --agent still --out d",
    "lmms_eval --model ad2_chanse --tasks ad2demo_relation", "lmms_eval --model ad2_chance --tasks nonsense_task",
    "sh -c 'ad2 tasks | head -n 1'",
)  # fmt: skip
FILES = {
    "file.txt": "text\n",
    "not.json": "{",
    "list.json": "[]",
    "empty.jsonl": "",
    "empty.scenic": "",
    "bad.jsonl": '{"id": 1}\nnonsense\n',
    "bad.yaml": "nonsense: [\n",
    "answers.py": "def answer(images, question):\n    return 'stop'\n",
}
ITEM = {"rubric": "coda_general", "question": "q", "reference": "a red car ahead"}


def record(work: Workspace) -> dict[str, Any]:
    _prepare(work)
    work.run(
        "ad2", "eval", "--model", "ad2_oracle", "--tasks", "ad2demo_mcq_planning", "--out", "evaluated", "--limit", "4"
    )
    with in_workspace(work, AD2_ROS_PATH=str(work.folder / "empty")):
        here = {group: _group(work, text) for group, text in GROUPS.items()}
    return {"here": here, "processes": {line: _real(work, line) for line in REAL}}


def _prepare(work: Workspace) -> None:
    (work.folder / "empty").mkdir()
    for name, text in FILES.items():
        (work.folder / name).write_text(text, "utf-8")
    items = [{"id": f"i{n}", "model": model, **ITEM, "answer": "a red car " * n} for n in range(4) for model in "ab"]
    human = [
        {"task": ITEM["rubric"], "id": f"i{n}", "models": ["a", "b"], "votes": ["a", "b", "tie"]} for n in range(4)
    ]
    for name, rows in (("items", items), ("human", human)):
        (work.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _group(work: Workspace, text: str) -> dict[str, Any]:
    """Results of the lines, in order; a line may occur twice, as if a user started the command again."""
    places = {"data": str(work.data), "repo": str(work.repo), "fake": FAKE_WORLD}
    found: dict[str, Any] = {}
    for line in text.strip().splitlines():
        name = f"{line} (again)" if line in found else line
        found[name] = _run(shlex.split(line.format(**places))).recorded_form()
    return found


def _run(words: list[str]) -> CommandResult:
    known = programs()
    name = next(name for name in known if words[: len(name.split())] == name.split())
    return run_in_process(known[name], words[len(name.split()) :])


def _real(work: Workspace, line: str) -> dict[str, Any]:
    words = shlex.split(line)
    environment = work.environment(PATH=f"{BIN}:/usr/bin:/bin")
    command = [str(BIN / words[0]) if (BIN / words[0]).exists() else words[0], *words[1:]]
    done = subprocess.run(command, cwd=work.folder, env=environment, capture_output=True, text=True, check=False)
    return CommandResult(done.returncode, done.stdout, done.stderr).recorded_form()
