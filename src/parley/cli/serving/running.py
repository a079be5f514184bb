"""Runs a server, and explains why it cannot run."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import typer

from parley.cli.output.exit_codes import fail, report_error
from parley.protocol.errors import ParleyError

if TYPE_CHECKING:
    from parley.server.run import PortError, Serving


def run_server(running: Coroutine[Any, Any, None], serving: Serving) -> None:
    """Run a server until it stops, or end the command with the reason why it cannot run."""
    from parley.server.listener.tls import TlsError
    from parley.server.run import CannotServeError, HostError, OpenToNetworkError, PortError, run
    from parley.stores.interface import StoreError

    try:
        run(running)
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
