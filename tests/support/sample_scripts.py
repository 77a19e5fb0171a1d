"""Cases, faults and plans that reproducer scripts are rendered from."""

from samples import a_case

from difftest.cases.case import Case
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.judge.stage import Stage
from reports.reproducer.fault import Fault
from reports.reproducer.script import Plan
from workers.training import tp_plan


def plan(case: Case) -> Plan:
    return (
        tp_plan.plan(case) if case.layout.mesh.names[-1] == tp_plan.AXIS and not tp_plan.refusal(case) else {}
    )


def collective_case(operation: str, form: str = "single", **rest: object) -> Case:
    spec = Collective(operation=operation, width=4, mesh=(2,), form=form, **rest)  # type: ignore[arg-type]
    return a_case((spec, Linear(inputs=spec.outputs, outputs=2)), path="collectives")


OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "permute", "broadcast")
LEARNED = Fault(kind="numbers", stage=Stage.BACKWARD, step=0, tensor="1.weight", tolerance=1e-4)

FAILURE_TEXT = "could not do 'this' or \"that\" \\ {x}"
FAULTS = (
    Fault(kind="numbers", stage=Stage.UPDATE, step=1, tensor="0.weight", tolerance=1e-3),
    Fault(kind="numbers", stage=Stage.BACKWARD, step=0, tensor="0.weight", tolerance=1e-3),
    Fault(kind="numbers", stage=Stage.FORWARD, step=0, tensor="output", tolerance=1e-3),
    Fault(kind="numbers", stage=Stage.FORWARD, step=1, tensor="loss", tolerance=1e-3),
    Fault(kind="replicas", stage=Stage.UPDATE, step=0, tensor="0.weight"),
    Fault(kind="shape", stage=Stage.UPDATE, step=0, tensor="0.weight"),
    Fault(kind="shape", stage=Stage.FORWARD, step=0, tensor="output"),
    Fault(kind="nonfinite", stage=Stage.BACKWARD, step=0, tensor="0.weight"),
    Fault(kind="raises", stage=Stage.PLACE, step=0, failure="RuntimeError", needle=FAILURE_TEXT),
    Fault(kind="raises", stage=Stage.FORWARD, step=0, failure="RuntimeError", needle=FAILURE_TEXT),
    Fault(kind="crash", stage=Stage.BACKWARD, step=0, failure="SIGABRT", needle=FAILURE_TEXT),
    Fault(kind="crash", stage=Stage.BACKWARD, step=0, failure="exit status 3"),
    Fault(kind="hang", stage=Stage.UPDATE, step=1, failure="deadline"),
)
