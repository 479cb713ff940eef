"""Watches a ServerApp from inside its process, without a change to the app.

Message API apps run `Strategy.start`, older ones `Server.fit`; both are wrapped for the life of the
process. An app that uses the Grid alone is seen through the Grid: one exchange counts as one round.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol

Metrics = Mapping[str, float]


class Observer(Protocol):
    """Is told what the app does. Never raises into the app."""

    def began(self, strategy: str, rounds: int | None) -> None: ...
    def round_began(self, number: int) -> None: ...
    def exchanged(self, replies: int, failures: int, metrics: Metrics) -> None: ...
    def counted(self, replies: int, failures: int) -> None: ...
    def failed(self, node: str, reason: str) -> None: ...
    def measured(self, stage: str, number: int, metrics: Metrics, *, last: bool) -> None: ...
    def ended(self, arrays: Callable[[], dict[str, Any]] | None) -> None: ...


def install(observer: Observer, grid_class: Any = None) -> None:
    """Let `observer` see every strategy, server and grid of this process."""
    _wrap_strategy(observer)
    _wrap_server(observer)
    _wrap_grid(observer, grid_class or import_module("flwr.superlink.grid.http_grid").HttpGrid)


def numbers(record: Any) -> dict[str, float]:
    """Keep what is a number; lists of numbers are named by position."""
    if record is None:
        return {}
    found: dict[str, float] = {}
    for name, value in dict(record).items():
        if isinstance(value, bool | int | float):
            found[str(name)] = float(value)
        elif isinstance(value, list | tuple):
            found |= {
                f"{name}[{i}]": float(v) for i, v in enumerate(value) if isinstance(v, int | float)
            }
    return found


def _wrap_strategy(observer: Observer) -> None:
    strategy_class: Any = import_module("flwr.serverapp.strategy.strategy").Strategy
    stock = strategy_class.start

    @functools.wraps(stock)
    def start(self: Any, grid: Any, initial_arrays: Any, *args: Any, **kwargs: Any) -> Any:
        call = inspect.signature(stock).bind(self, grid, initial_arrays, *args, **kwargs)
        call.apply_defaults()
        observer.began(type(self).__name__, int(call.arguments["num_rounds"]))
        latest = {"arrays": initial_arrays}
        _watch_strategy(self, observer, latest, central=call.arguments["evaluate_fn"] is not None)
        if call.arguments["evaluate_fn"] is not None:
            call.arguments["evaluate_fn"] = _watch_evaluate_fn(
                call.arguments["evaluate_fn"], observer
            )
        try:
            return stock(*call.args, **call.kwargs)
        finally:
            observer.ended(lambda: _record_arrays(latest["arrays"]))

    strategy_class.start = start


def _watch_strategy(
    strategy: Any, observer: Observer, latest: dict[str, Any], *, central: bool
) -> None:
    """Wrap the instance, not the class: subclasses override these methods."""
    configure, train, evaluate = (
        strategy.configure_train,
        strategy.aggregate_train,
        strategy.aggregate_evaluate,
    )

    def configure_train(server_round: int, *args: Any, **kwargs: Any) -> Any:
        observer.round_began(server_round)
        return configure(server_round, *args, **kwargs)

    def aggregate_train(server_round: int, replies: Iterable[Any]) -> Any:
        arrays, metrics = result = train(server_round, replies)
        if arrays is not None:
            latest["arrays"] = arrays
        observer.measured("train", server_round, numbers(metrics), last=False)
        return result

    def aggregate_evaluate(server_round: int, replies: Iterable[Any]) -> Any:
        metrics = evaluate(server_round, replies)
        observer.measured("evaluate", server_round, numbers(metrics), last=not central)
        return metrics

    strategy.configure_train = configure_train
    strategy.aggregate_train = aggregate_train
    strategy.aggregate_evaluate = aggregate_evaluate


def _watch_evaluate_fn(evaluate_fn: Any, observer: Observer) -> Any:
    @functools.wraps(evaluate_fn)
    def watched(server_round: int, arrays: Any) -> Any:
        metrics = evaluate_fn(server_round, arrays)
        observer.measured("server", server_round, numbers(metrics), last=True)
        return metrics

    return watched


def _wrap_server(observer: Observer) -> None:
    server_class: Any = import_module("flwr.server.server").Server
    stock = server_class.fit

    @functools.wraps(stock)
    def fit(self: Any, num_rounds: int, timeout: float | None) -> Any:
        observer.began(type(self.strategy).__name__, num_rounds)
        _watch_legacy(self, observer)
        try:
            return stock(self, num_rounds, timeout)
        finally:
            observer.ended(lambda: _parameter_arrays(self.parameters))

    server_class.fit = fit


def _watch_legacy(server: Any, observer: Observer) -> None:
    strategy, evaluate_round = server.strategy, server.evaluate_round
    configure, fit, central = strategy.configure_fit, strategy.aggregate_fit, strategy.evaluate

    def configure_fit(server_round: int, *args: Any, **kwargs: Any) -> Any:
        observer.round_began(server_round)
        return configure(server_round, *args, **kwargs)

    def aggregate_fit(server_round: int, results: Any, failures: Any) -> Any:
        observer.counted(len(results), len(failures))
        result = fit(server_round, results, failures)
        observer.measured("train", server_round, numbers(result[1]), last=False)
        return result

    def evaluate(server_round: int, *args: Any, **kwargs: Any) -> Any:
        result = central(server_round, *args, **kwargs)
        if result is not None:
            metrics = {"loss": float(result[0]), **numbers(result[1])}
            observer.measured("server", server_round, metrics, last=server_round == 0)
        return result

    def watched_evaluate_round(server_round: int, *args: Any, **kwargs: Any) -> Any:
        result = evaluate_round(server_round, *args, **kwargs)
        metrics: dict[str, float] = {}
        if result is not None:
            loss = {} if result[0] is None else {"loss": float(result[0])}
            metrics = {**loss, **numbers(result[1])}
        observer.measured("evaluate", server_round, metrics, last=True)
        return result

    strategy.configure_fit = configure_fit
    strategy.aggregate_fit = aggregate_fit
    strategy.evaluate = evaluate
    server.evaluate_round = watched_evaluate_round


def _wrap_grid(observer: Observer, grid_class: Any) -> None:
    stock = grid_class.send_and_receive
    names: dict[int, str] = {}

    @functools.wraps(stock)
    def send_and_receive(self: Any, messages: Any, *, timeout: float | None = None) -> Any:
        messages = list(messages)
        # Names are learnt before: who is gone when its reply fails is not listed any more.
        if any(int(m.metadata.dst_node_id) not in names for m in messages):
            names.update((int(node.node_id), str(node.name)) for node in self.get_nodes())
        replies = list(stock(self, messages, timeout=timeout))
        failures = [reply for reply in replies if reply.has_error()]
        if failures:
            # By the message, not by the reply: for a node that is gone, the SuperLink replies.
            nodes = {m.metadata.message_id: int(m.metadata.dst_node_id) for m in messages}
            for reply in failures:
                node_id = nodes.get(reply.metadata.reply_to_message_id, 0)
                observer.failed(names.get(node_id, str(node_id)), str(reply.error.reason))
        missing = len(messages) - len(replies)
        if messages:
            observer.exchanged(
                len(replies) - len(failures), len(failures) + missing, _mean_metrics(replies)
            )
        return replies

    grid_class.send_and_receive = send_and_receive


def _mean_metrics(replies: Iterable[Any]) -> dict[str, float]:
    """Average what the sites report: good enough to show where no strategy says more."""
    sums: dict[str, list[float]] = {}
    for reply in replies:
        if not reply.has_error():
            for record in reply.content.metric_records.values():
                for name, value in numbers(record).items():
                    sums.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in sums.items()}


def _record_arrays(record: Any) -> dict[str, Any]:
    return {str(name): array.numpy() for name, array in record.items()}


def _parameter_arrays(parameters: Any) -> dict[str, Any]:
    convert = import_module("flwr.common").parameters_to_ndarrays
    return {f"array_{i:03d}": array for i, array in enumerate(convert(parameters))}
