"""Runs a server, in this process or in several, and explains why it cannot run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from parley.cli.output.exit_codes import fail, report_error
from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    from parley.cli.options.handover import WorkerReport
    from parley.cli.options.runtime import RuntimeOptions
    from parley.cli.options.server import ServerOptions
    from parley.server.run import PortError, Serving

logger = logging.getLogger(__name__)


def run_server(running: Coroutine[Any, Any, None], serving: Serving) -> None:
    """Run a server until it stops, or end the command with the reason why it cannot run."""
    from parley.server.run import run

    with _explained(serving):
        run(running)


def run_worker_processes(server: ServerOptions, runtime: RuntimeOptions) -> int:
    """Run the command in several processes until they stop; its exit code."""
    from parley.cli.serving.workers import WorkerPlan, reserve_port, run_workers, worker_command
    from parley.server.run import bind
    from parley.server.telemetry.logs import configure_logging

    serving = server.serving
    configure_logging(server.log_format, server.log_level)
    log: Callable[[str], None] = partial(typer.echo, err=True) if server.log_format == "text" else logger.warning
    with _explained(serving), ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in bind(serving.host, serving.port)]
        grpc_port = serving.grpc_port
        if grpc_port is not None:
            for trial in bind(serving.host, grpc_port):  # another program may share its port, too
                trial.close()
            reserving, grpc_port = reserve_port(serving.host, grpc_port)
            stack.enter_context(reserving)
        plan = WorkerPlan(
            count=runtime.workers,
            command=worker_command,
            sockets=sockets,
            grpc_port=grpc_port,
            replica=runtime.replica,
            hints_folder=stack.enter_context(TemporaryDirectory(prefix="parley-")),
        )
        announce = partial(_announce_workers, runtime.workers, server.log_format == "json")
        return asyncio.run(run_workers(plan, log=log, on_ready=announce))
    return 1  # not reached: what cannot run has ended the command


def _announce_workers(count: int, is_for_machines: bool, first: WorkerReport) -> None:
    if is_for_machines:
        logger.info("%d workers serve at %s", count, first.url, extra={"url": first.url, "workers": count})
    else:
        typer.echo(first.announcement, nl=False)


@contextmanager
def _explained(serving: Serving) -> Generator[None]:
    """Ends the command with the reason why a server cannot run."""
    from parley.server.listener.tls import TlsError
    from parley.server.run import CannotServeError, HostError, OpenToNetworkError, PortError
    from parley.stores.interface import StoreError

    try:
        yield
    except HostError as error:
        fail(str(error), code=2)
    except OpenToNetworkError as error:
        fail(f"{error} See the options --auth FILE, --host 127.0.0.1, --allow-anonymous.", code=2)
    except PortError as error:
        fail(" ".join(f"{one} {_port_hint(one.port, serving)}" for one in (error, *_grpc_port_problem(error, serving))))
    except (CannotServeError, TlsError, StoreError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}")
    except ParleyError as error:  # such as a proxy's agent that is not reachable
        raise typer.Exit(report_error(error, as_json=False)) from error


def _grpc_port_problem(error: PortError, serving: Serving) -> Iterator[PortError]:
    """The problem with the port for gRPC, if any, so that both ports are reported at once."""
    from parley.server.run import CannotServeError, PortError, bind

    if not serving.grpc_port or error.port == serving.grpc_port:
        return
    try:
        sockets = bind(serving.host, serving.grpc_port)
    except PortError as other:
        yield other
    except CannotServeError:
        return
    else:
        for opened in sockets:
            opened.close()


def _port_hint(port: int, serving: Serving) -> str:
    if port == serving.grpc_port:
        return "For gRPC: --grpc-port 0 picks a free one."
    return "For HTTP: --port 0 picks a free one."
