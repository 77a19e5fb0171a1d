"""Scripts of what wrappers are told: the arguments of `fully_shard`, styles, and losses of cut classes."""

import ast
import builtins

import msgspec
import pytest
from forked_scripts import run_forked
from installed_packages import needs
from samples import a_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import Feature
from difftest.cases.wrapping import Regions, Sharding
from difftest.judge.stage import Stage
from reports.reproducer.fault import Fault
from reports.reproducer.refusal import refusal
from reports.reproducer.reproducer import render
from workers.training import tp_plan

UPDATED = Fault(kind="numbers", stage=Stage.UPDATE, step=1, tensor="0.weight", tolerance=1e-3)
S0, R = Shard(0), Replicate()
PAIR = (("dp_shard", 2),)
ATTENDING = (
    Linear(inputs=4, outputs=8),
    Residual(layers=(LayerNorm(width=8), Attention(width=8, heads=2, kv_heads=2))),
    Linear(inputs=8, outputs=6, bias=False),
)
CUT = {f"1.1.{name}.weight": (S0,) for name in "qkv"} | {"1.1.o.weight": (Shard(1),), "2.weight": (S0,)}


def sharded(**told: object) -> Case:
    case = a_case(
        mesh=PAIR, sharded={"0.weight": (S0,), "0.bias": (S0,)}, training=Training(steps=2, accumulation=2)
    )
    return msgspec.structs.replace(case, **told)


def cut(regions: Regions) -> Case:
    return a_case(
        ATTENDING,
        mesh=(("tp", 2),),
        batch=(R,),
        sharded=CUT,
        sequence=4,
        training=Training(steps=2, loss="cross_entropy"),
        regions=regions,
    )


def script(case: Case, backend: str) -> str:
    assert refusal(case, backend) is None
    plan = tp_plan.plan(case) if case.layout.mesh.names[-1] == tp_plan.AXIS else {}
    text = render(case, backend, UPDATED, "a fault", plan, plain=True)
    ast.parse(text)
    return text


def undefined(text: str) -> set[str]:
    """The names that a script reads, and that none of its lines and no builtin defines."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    imported = [
        alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    ]
    there = (
        {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        | {(alias.asname or alias.name).partition(".")[0] for alias in imported}
        | {node.arg for node in nodes if isinstance(node, ast.arg)}
        | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        | {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    )
    return {node.id for node in names} - there - {*dir(builtins)} - {"__file__"}


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        (
            {"sharding": Sharding(reshard_after_forward=2, offload=True)},
            ["reshard_after_forward=2, offload_policy=CPUOffloadPolicy(pin_memory=False))"],
        ),
        (
            {"sharding": Sharding(gradient_divide_factor=3.0, summed=True)},
            [
                "model.set_force_sum_reduction_for_comms(True)",
                "model.set_gradient_divide_factor(3.0)",
                "train(model, feed, 3.0",
            ],
        ),
        ({"sharding": Sharding(synced="scattered")}, ["    model.set_requires_all_reduce(last)"]),
        ({"sharding": Sharding(wrapped="layers")}, ["fully_shard(model[0], mesh=mesh)"]),
        (
            {"sharding": Sharding(flattened=True)},
            [
                "mesh_dim_names=('dp_shard_outer', 'dp_shard_inner'))",
                "shards = world[('dp_shard_outer', 'dp_shard_inner')]._flatten('dp_shard')",
                "mesh = shards",
            ],
        ),
        (
            {"features": (Feature(name="forwards_first", options={"backward": "each"}),)},
            ["waiting.append(loss * scale)", "for loss in waiting:", "loss.backward()"],
        ),
        (
            {"features": (Feature(name="forwards_first", options={"backward": "once"}),)},
            ["waiting.append(loss * scale)", "torch.stack(waiting).sum().backward()"],
        ),
        (
            {"features": (Feature(name="own_function", options={"outputs": 2}),)},
            ["class Product(torch.autograd.Function):", "return torch.cat(given, -1)"],
        ),
        (
            {"features": (Feature(name="gradient_penalty", options={"factor": 0.5}),)},
            [
                "output = model(x.requires_grad_())",
                "(slope,) = torch.autograd.grad(output, x, torch.ones_like(output), create_graph=True)",
                "loss = loss + slope.square().sum() * (0.5 /",
            ],
        ),
        (
            {"features": (Feature(name="forward_derivative", options={"factor": 0.5, "form": "func"}),)},
            [
                "output, slope = torch.func.jvp(model, (x,), (x.relu(),))",
                "loss = loss + slope.square().sum() * (0.5 /",
            ],
        ),
        (
            {"features": (Feature(name="forward_derivative", options={"factor": 0.5, "form": "dual"}),)},
            ["output, slope = torch.autograd.forward_ad.unpack_dual(dual)"],
        ),
        (
            {"features": (Feature(name="changed_in_place", options={"by": "function"}),)},
            ["Halved.apply(given)", "layer.register_forward_hook(halved)"],
        ),
        (
            {"features": (Feature(name="parameter_hooks", options={"of": "gradient"}),)},
            ["parameter.register_hook(lambda gradient: gradient / 2)"],
        ),
        (
            {"features": (Feature(name="empty_group"),)},
            ['[{"params": [*model.parameters()]}, {"params": []}]'],
        ),
        (
            {"features": (Feature(name="mixed_precision", options={"reduce": "float32", "output": "loss"}),)},
            [
                "mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)",
                "model.register_forward_hook(lambda _module, _inputs, output: output.float())",
            ],
        ),
        (
            {
                "features": (
                    Feature(name="mixed_precision", options={"reduce": "float32", "output": "everywhere"}),
                ),
                "sharding": Sharding(wrapped="layers"),
            },
            [
                "fully_shard(model[0], mesh=mesh, mp_policy=MixedPrecisionPolicy(",
                "reduce_dtype=torch.float32, output_dtype=torch.float32))\n    fully_shard(model, mesh=mesh,",
            ],
        ),
    ],
)
def test_a_script_of_fsdp_has_the_options_of_the_case(told: dict[str, object], lines: list[str]) -> None:
    text = script(sharded(**told), "torch_fsdp")
    assert [line for line in lines if line not in text] == []


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"kept_between": True}, ["    model.set_reshard_after_backward(last)"]),
        (
            {"by_older_name": True, "gradient_divide_factor": 2.0},
            ["model.set_reduce_scatter_divide_factor(2.0)"],
        ),
    ],
)
def test_a_script_of_fsdp_has_further_options(options: dict[str, object], lines: list[str]) -> None:
    text = script(sharded(sharding=msgspec.convert(options, Sharding)), "torch_fsdp")
    assert [line for line in lines if line not in text] == []


def test_a_script_of_tensor_parallelism_makes_a_second_mesh_ahead_of_fsdp() -> None:
    whole = {"0.weight": (S0, R), "0.bias": (S0, R)}
    case = a_case(mesh=(*PAIR, ("tp", 1)), batch=(S0, R), sharded=whole, sharding=Sharding(second_mesh=True))
    text = script(case, "torch_tp")
    made = "init_device_mesh(\"cpu\", (2, 1), mesh_dim_names=('ep', 'tp'))['tp']"
    assert text.index("parallelize_module(") < text.index(made) < text.index("fully_shard(model")
    assert undefined(text) == set()


def test_a_script_says_what_fsdp_gathers_ahead_and_not_at_all() -> None:
    layers = (Embedding(vocabulary=8, width=4), Linear(inputs=4, outputs=4), Linear(inputs=4, outputs=2))
    whole = {f"{path}.weight": (S0,) for path in range(3)} | {f"{path}.bias": (S0,) for path in (1, 2)}
    case = a_case(layers, mesh=PAIR, sharded=whole, sequence=2, training=Training(steps=2))
    told = Sharding(prefetched="both", embeddings_resting=True, wrapped="layers")
    text = script(msgspec.structs.replace(case, sharding=told), "torch_fsdp")
    wanted = (
        "model[0].set_unshard_in_backward(False)",
        "model[0].set_modules_to_forward_prefetch([model[1]])",
        "model[2].set_modules_to_backward_prefetch([model[1]])",
    )
    assert [line for line in wanted if line not in text] == []


def test_no_script_averages_the_gradients_of_an_ignored_parameter() -> None:
    assert "ignores" in (refusal(sharded(sharding=Sharding(ignored="0.weight")), "torch_fsdp") or "")


def test_a_script_of_fsdp1_puts_intervals_together_and_clips_by_the_wrapper() -> None:
    clipped = Training(steps=2, accumulation=2, clip_norm=0.25)
    text = script(sharded(training=clipped, sharding=Sharding(reshard_after_forward=False)), "torch_fsdp1")
    wanted = (
        '"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP',
        "return model.clip_grad_norm_(norm)",
        "return whole(model).get_parameter('0.weight').detach()",
        "model.no_sync()",
    )
    assert [line for line in wanted if line not in text] == []


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("bf16_compress", "model.register_comm_hook(None, default_hooks.bf16_compress_hook)"),
        (
            "fp16_wrapper",
            "default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))",
        ),
        (
            "batched_power_late",
            "PowerSGDState(None, 1, start_powerSGD_iter=1000), powerSGD_hook.batched_powerSGD_hook",
        ),
        ("batched_power", "side = math.isqrt("),
    ],
)
def test_a_script_of_ddp_registers_the_hook(kind: str, line: str) -> None:
    used = (Feature(name="communication_hook", options={"kind": kind}),)
    text = script(msgspec.structs.replace(a_case(training=Training(steps=2)), features=used), "torch_ddp")
    assert line in text
    assert "if isinstance(model, DistributedDataParallel):" in text


@pytest.mark.parametrize("backend", ["torch_ddp", "xla_ddp"])
@pytest.mark.parametrize("kind", ["bf16_compress", "power_late"])
def test_a_script_with_a_hook_has_every_name_that_it_uses(kind: str, backend: str) -> None:
    used = (Feature(name="communication_hook", options={"kind": kind}),)
    text = script(msgspec.structs.replace(a_case(training=Training(steps=2)), features=used), backend)
    assert "model.register_comm_hook(" in text
    assert undefined(text) == set()


def test_a_name_that_no_line_defines_is_noticed() -> None:
    assert undefined("import math\nfor one in range(2):\n    print(math.pi, one, other)") == {"other"}


@pytest.mark.parametrize("backend", ["torch_compile", "torch_fsdp", "xla_spmd"])
def test_no_script_registers_a_hook_with_what_is_not_ddp(backend: str) -> None:
    used = (Feature(name="communication_hook", options={"kind": "allreduce"}),)
    assert "no wrapper that takes one" in (refusal(sharded(features=used), backend) or "")


MUON = Feature(name="muon", options={"nesterov": True, "rate": 0.03125})
EVENT = Feature(name="optimizer_event")


def test_a_script_has_muon_over_matrices() -> None:
    lines = script(sharded(features=(MUON,)), "torch_fsdp")
    assert "torch.optim.Muon([one for one in model.parameters() if one.dim() == 2], lr=0.03125" in lines
    assert (
        "optimizer.zero_grad()\n        for one in model.parameters():\n            one.grad = None" in lines
    )


def test_a_script_gives_fsdp_an_event_after_the_update() -> None:
    text = script(sharded(features=(EVENT,)), "torch_fsdp")
    assert 'model.set_post_optim_event(torch.Event("cpu"))' in text


BLOCK = (
    Linear(inputs=4, outputs=4),
    Residual(layers=(Linear(inputs=4, outputs=4),)),
    Linear(inputs=4, outputs=2),
)
KEPT = Sharding(kept_in_step=True, wrapped="layers")
IN_PLACE = Feature(name="added_in_place")


def of_blocks(**told: object) -> Case:
    case = a_case(BLOCK, mesh=PAIR, training=Training(steps=2, accumulation=2))
    everywhere = dict.fromkeys(case.layout.parameters, (S0,))
    layout = msgspec.structs.replace(case.layout, parameters=everywhere)
    return msgspec.structs.replace(case, layout=layout, **told)


def test_a_script_shards_parameters_again_behind_the_backward_passes() -> None:
    text = script(of_blocks(sharding=KEPT), "torch_fsdp")
    wanted = (
        "fully_shard(model[0], mesh=mesh, reshard_after_forward=False)",
        "model[0].set_reshard_after_backward(False)",
        "model.set_reshard_after_backward(False)",
        "        group.reshard()",
    )
    assert [line for line in wanted if line not in text] == []
    assert undefined(text) == set()
    assert "reshard" not in script(of_blocks(), "torch_fsdp")


def test_a_script_gathers_the_first_and_the_last_layer_together() -> None:
    told = Sharding(wrapped="groups", gradient_divide_factor=2.0)
    text = script(of_blocks(sharding=told), "torch_fsdp")
    wanted = (
        "fully_shard([model[0], model[2]], mesh=mesh)",
        "model[1][0].set_gradient_divide_factor(2.0)",
        "model[0].set_gradient_divide_factor(2.0)",
    )
    assert [line for line in wanted if line not in text] == []
    assert "model[2].set" not in text
    assert undefined(text) == set()


def test_a_script_adds_in_place_to_a_view() -> None:
    text = script(of_blocks(features=(IN_PLACE,)), "torch_fsdp")
    assert "return super().forward(x).add_(x)" in text
    assert "block[-1].register_forward_hook(lambda _layer, _inputs, given: given.unsqueeze(0)" in text
    assert "add_(x)" not in script(of_blocks(), "torch_fsdp")


@pytest.mark.slow
@pytest.mark.parametrize("told", [{"sharding": KEPT}, {"features": (IN_PLACE,)}], ids=["kept", "in place"])
def test_a_script_with_a_step_of_ones_own_shows_no_fault_where_there_is_none(told: dict[str, object]) -> None:
    needs("torch", reason="needs torch: pip install 'difftest[xla]'")
    done = run_forked(script(of_blocks(**told), "torch_fsdp"))
    assert done.absent, done.output


@pytest.mark.slow
@pytest.mark.parametrize("used", [MUON, EVENT], ids=lambda feature: feature.name)
def test_a_script_of_fsdp_with_a_feature_shows_no_fault_where_there_is_none(used: Feature) -> None:
    needs("torch", reason="needs torch: pip install 'difftest[xla]'")
    done = run_forked(script(sharded(features=(used,)), "torch_fsdp"))
    assert done.absent, done.output
    assert "tolerance" in done.output


def test_a_script_applies_a_block_as_often_as_the_case_does() -> None:
    block = Residual(layers=(Linear(inputs=4, outputs=4),))
    layers = (Linear(inputs=4, outputs=4), msgspec.structs.replace(block, times=3))
    text = script(a_case(layers, training=Training(steps=2)), "torch_ddp")
    assert ".applied(3)" in text
    assert "for _ in range(self.times):" in text
    assert "times" not in script(a_case((layers[0], block), training=Training(steps=2)), "torch_ddp")


def test_a_script_that_reduces_every_part_tells_fsdp_nothing_between_them() -> None:
    assert "set_requires" not in script(sharded(sharding=Sharding(synced="every")), "torch_fsdp")


def test_a_script_of_another_backend_casts_by_itself() -> None:
    used = (Feature(name="mixed_precision", options={"reduce": "float32", "output": "policy"}),)
    text = script(msgspec.structs.replace(a_case(training=Training(steps=2)), features=used), "torch_ddp")
    assert "torch.func.functional_call(inner, copies, narrow(x))" in text
    assert "MixedPrecisionPolicy" not in text


def test_a_script_of_layers_on_several_meshes_wraps_each_on_its_own() -> None:
    layers = (Linear(inputs=4, outputs=4, bias=False), Linear(inputs=4, outputs=2, bias=False))
    case = a_case(
        layers,
        mesh=(("dp_shard", 2), ("ep", 2)),
        batch=(R, R),
        sharded={"0.weight": (S0, R), "1.weight": (R, S0)},
        training=Training(steps=2),
    )
    text = script(case, "torch_fsdp")
    assert "fully_shard(model[0], mesh=mesh['dp_shard'])\n" in text
    assert "fully_shard(model[1], mesh=mesh['ep'])\n" in text


@pytest.mark.parametrize(
    ("regions", "lines"),
    [
        (
            Regions(sequence=True, prepared=True),
            [
                "'1.0': SequenceParallel(use_local_output=True)",
                "'1.1': PrepareModuleInput(input_layouts=(Shard(1),)",
                "'1.1.q': ColwiseParallel()",
                "'1.1.o': RowwiseParallel(output_layouts=Shard(1))",
            ],
        ),
        (Regions(sequence=True), ["'1.1.q': ColwiseParallel(input_layouts=Shard(1))"]),
        (
            Regions(loss="images", mean=True),
            [
                "'2': ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)",
                "with loss_parallel():",
                "output.permute(2, 0, 1).unsqueeze(0), y.unsqueeze(0)",
                'reduction="mean"',
            ],
        ),
        (Regions(loss="log_softmax", weighted=True), ["functional.one_hot(y * valid, 6)", " * weights"]),
    ],
)
def test_a_script_of_tensor_parallelism_has_the_styles_and_the_loss(
    regions: Regions, lines: list[str]
) -> None:
    text = script(cut(regions), "torch_tp")
    assert [line for line in lines if line not in text] == []


def test_a_script_of_spmd_annotates_what_layers_give() -> None:
    text = script(cut(Regions(sequence=True, loss="rows")), "xla_spmd")
    assert "for layer in list(model)[:-1]:" in text
    assert "xs.mark_sharding(output, mesh, (None, 'tp', None))" in text
    assert "xs.mark_sharding(output, mesh, (None, None, 'tp'))" in text


def test_a_template_that_cannot_cut_activations_says_so() -> None:
    assert "cannot write" in (refusal(cut(Regions(sequence=True)), "torch_dtensor") or "")


@pytest.mark.parametrize("operation", ["reduce", "scatter", "all_reduce"])
def test_a_script_of_a_collective_has_its_strides(operation: str) -> None:
    layer = Collective(operation=operation, width=4, mesh=(2,), memory="strided")  # type: ignore[arg-type]
    text = script(
        a_case((layer, Linear(inputs=layer.outputs, outputs=2)), training=Training(steps=2)), "torch_ddp"
    )
    assert "strided = lambda tensor: torch.stack((tensor, tensor), -1).select(-1, 0)" in text
    assert f"distributed.{operation}(" in text
