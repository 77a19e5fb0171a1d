"""Reproducer scripts of features of training."""

import ast
import dataclasses
from collections.abc import Iterator

import msgspec
import pytest
from forked_scripts import run_forked
from installed_packages import skip_without
from samples import a_case

from difftest.cases.case import Case, Training
from difftest.cases.feature import declared
from difftest.cases.features import names
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.options import Feature
from difftest.judge.stage import Stage
from generators.cases import case_at
from reports.reproducer import features
from reports.reproducer.fault import Fault
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render

CASES = 100
UPDATED = Fault(kind="numbers", stage=Stage.UPDATE, step=1, tensor="0.weight", tolerance=1e-3)
SGD = "optimizer = torch.optim.SGD(model.parameters()"
needs_torch = skip_without("torch")


def featured(*used: Feature, optimizer: str = "sgd") -> Case:
    plain = a_case(training=Training(optimizer=optimizer, steps=2))  # type: ignore[arg-type]
    return msgspec.structs.replace(plain, features=used)


def generated() -> Iterator[Case]:
    """The generated cases whose features scripts can have."""
    drawn = (case_at(0, index, paths=("features",)) for index in range(CASES))
    return (case for case in drawn if features.refusal(case) is None)


LINEAR = "torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 4)"
COSINE = "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4, least)"


@pytest.mark.long
def test_the_scripts_of_generated_features_are_python() -> None:
    written = set()
    for case in generated():
        if refusal(case, "torch_ddp") is None and "0.weight" in case.model.parameters():
            ast.parse(render(case, "torch_ddp", UPDATED, "features", plain=True))
            written |= {feature.name for feature in case.training_features}
    of_any_path = [name for name in names() if not declared(name).PATHS]
    assert len(written) > len(of_any_path) // 2, written


@pytest.mark.parametrize(
    ("used", "lines"),
    [
        (
            Feature(name="amsgrad"),
            ["optimizer = torch.optim.SGD(model.parameters(), lr=0.125, amsgrad=True)"],
        ),
        (
            Feature(name="frozen", options={"name": "0.bias"}),
            ["model.get_parameter('0.bias').requires_grad_(False)"],
        ),
        (
            Feature(name="clip_by_value", options={"value": 0.5}),
            ["torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)", "optimizer.step()"],
        ),
        (
            Feature(name="optimizer", options={"kind": "rprop", "form": "loop", "rate": 0.5}),
            ["optimizer = torch.optim.Rprop(model.parameters(), lr=0.5, foreach=False)"],
        ),
        (
            Feature(name="schedule", options={"kind": "step", "factor": 0.5}),
            [
                "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)",
                "optimizer.step()",
                "optimizer.zero_grad()",
                "scheduler.step()",
            ],
        ),
        (
            Feature(name="schedule", options={"kind": "unwarmed", "factor": 0.5}),
            [
                'least = 0.5 * float(optimizer.param_groups[0]["lr"])',
                f"scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [{LINEAR}, {COSINE}], [0])",
            ],
        ),
        (
            Feature(name="zeroed_gradients", options={"by": "model", "place": "forward"}),
            ["model.zero_grad()", "(loss * scale).backward()"],
        ),
        (
            Feature(name="optimizer", options={"kind": "adagrad", "form": "fused", "rate": 0.5}),
            ["optimizer = torch.optim.Adagrad(model.parameters(), lr=0.5, fused=True)"],
        ),
        (
            Feature(name="clip_by_infinity_norm", options={"norm": 0.5, "order": 0.0}),
            ["torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, norm_type=0.0)", "optimizer.step()"],
        ),
        (
            Feature(name="retried", options={"step": 0, "layer": "last", "during": "backward"}),
            [
                "hook = layer.register_full_backward_pre_hook(fail)",
                "except torch.OutOfMemoryError:",
                "(loss * scale).backward()",
            ],
        ),
        (Feature(name="zeroed_gradients"), ["optimizer.zero_grad(set_to_none=False)"]),
        (
            Feature(name="tensor_rate"),
            [f"{SGD}, lr=torch.tensor(0.125))"],
        ),
        (Feature(name="evaluation"), ["model.eval()", "model.train()", "(loss * scale).backward()"]),
        (
            Feature(name="save_and_load", options={"step": 1}),
            ["if step == 1:", "optimizer.state.clear()", "(loss * scale).backward()"],
        ),
        (
            Feature(name="gradient_scaler", options={"step": 0}),
            [
                "scaler.update()",
                "(loss * scale).backward()",
                "scaler.unscale_(optimizer)",
                "optimizer.step()",
            ],
        ),
        (
            Feature(name="averaged_weights", options={"decay": 0.5}),
            ["optimizer.zero_grad()", "averaged.update_parameters(module)", "if step == 1:"],
        ),
        (
            Feature(name="autocast"),
            ["with torch.autocast(x.device.type, torch.bfloat16):", "model.forward = casting"],
        ),
        (
            Feature(name="sharded_optimizer"),
            [
                (
                    f"{SGD}, lr=0.125) if next(model.parameters()).dtype is torch.float64 else "
                    "ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.125)"
                )
            ],
        ),
        (
            Feature(name="activations_on_host"),
            ["with torch.autograd.graph.save_on_cpu():", "model.forward = saving"],
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Feature) else "",
)
def test_a_feature_is_written_as_users_write_it(used: Feature, lines: list[str]) -> None:
    text = render(featured(used), "torch_ddp", UPDATED, "a feature", plain=True)
    stripped = [line.strip() for line in text.splitlines()]
    places = [stripped.index(line) for line in lines]
    assert places == sorted(places)


UNWRITTEN = (
    Feature(name="distributed_checkpoint", options={"step": 1, "resharded": True}),
    Feature(name="local_steps", options={"period": 2, "step": 0, "together": 1}),
    Feature(name="moved_checkpoint", options={"step": 1, "layout": "whole", "files": "files", "wide": False}),
    Feature(name="state_dict_options", options={"step": 1, "form": "full"}),
    Feature(name="uneven_inputs", options={"batches": 1, "ranks": 1, "first": True, "shrinking": False}),
)


@pytest.mark.parametrize("used", UNWRITTEN, ids=lambda feature: feature.name)
@pytest.mark.parametrize("backend", ["torch_ddp", "torch_fsdp", "xla_ddp"])
def test_a_feature_without_a_spelling_is_refused_by_its_name(used: Feature, backend: str) -> None:
    assert f"the feature {used.name} yet" in (refusal(featured(used), backend) or "")
    assert refusal(featured(Feature(name="maximize")), backend) is None


def test_a_sharded_optimizer_is_refused_on_replicas_of_xla_whose_class_is_another() -> None:
    case = featured(Feature(name="sharded_optimizer"))
    assert "torch_xla's ZeroRedundancyOptimizer yet" in (refusal(case, "xla_replica") or "")
    assert refusal(case, "torch_ddp") is None


def test_a_checkpoint_of_torch_s_older_kind_is_written_whatever_the_backend_has() -> None:
    block = Residual(layers=(Linear(inputs=4, outputs=4),))
    case = a_case(
        (Linear(inputs=4, outputs=4), block), training=Training(optimizer="sgd", steps=2, checkpointing=True)
    )
    used = msgspec.structs.replace(case, features=(Feature(name="reentrant_checkpoint"),))
    for backend in ("torch_ddp", "xla_spmd", "torchax"):
        text = render(used, backend, UPDATED, "a feature", plain=True)
        assert "from torch.utils.checkpoint import checkpoint" in text
        assert "use_reentrant=True" in text


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    ("used", "tolerance"),
    [
        (
            (
                Feature(name="evaluation"),
                Feature(name="save_and_load", options={"step": 1}),
                Feature(name="gradient_scaler", options={"step": 1}),
            ),
            1e-3,
        ),
        (
            (Feature(name="averaged_weights", options={"decay": 0.5}), Feature(name="sharded_optimizer")),
            1e-3,
        ),
        ((Feature(name="autocast"), Feature(name="activations_on_host")), 1e-2),
    ],
    ids=lambda given: "-".join(one.name for one in given) if isinstance(given, tuple) else "",
)
def test_a_script_of_features_that_must_change_nothing_shows_no_fault(
    used: tuple[Feature, ...], tolerance: float
) -> None:
    shown = dataclasses.replace(UPDATED, tolerance=tolerance)
    done = run_forked(render(featured(*used), "torch_ddp", shown, "features", plain=True))
    assert done.absent, done.output
    assert "tolerance" in done.output


@pytest.mark.slow
@needs_torch
def test_a_script_of_features_shows_no_fault_on_a_correct_backend() -> None:
    used = (
        Feature(name="schedule", options={"kind": "linear", "factor": 0.5}),
        Feature(name="clip_by_value", options={"value": 0.5}),
        Feature(name="maximize"),
        Feature(name="zeroed_gradients"),
    )
    done = run_forked(render(featured(*used), "torch_ddp", UPDATED, "features", plain=True))
    assert done.absent, done.output
    assert "tolerance" in done.output
