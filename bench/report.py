"""The figures as tables."""

from typing import Any

from rich.console import Console
from rich.table import Table

from fields import RATES

IDLE_AIM = 1.0
IMPORT_AIM = 100.0


def show(report: dict[str, Any]) -> None:
    """Print a report."""
    console = Console()
    for store in report["stores"]:
        console.print(_rates(store))
        console.print(_latencies(store))
        console.print(_aims(store))
    imports = report["import_ms"]
    console.print(f"from standfast import Standfast: {imports:.0f} ms (aim: at most {IMPORT_AIM:g} ms)")
    console.print(f"{report['machine']}; {report['date']}; {report['command']}", style="dim")


def _rates(store: dict[str, Any]) -> Table:
    table = Table("discipline", "contender", "jobs/s", "lowest", "highest", title=f"{store['server']}: rates")
    for figure in store["figures"]:
        if figure["discipline"] in RATES:
            numbers = (f"{figure[name]:,.0f}" for name in ("median", "lowest", "highest"))
            table.add_row(figure["discipline"], figure["contender"], *numbers)
    return table


def _latencies(store: dict[str, Any]) -> Table:
    table = Table("discipline", "contender", "p50 ms", "p99 ms", "longest", title=f"{store['server']}: latencies")
    for figure in store["figures"]:
        if figure["discipline"] not in RATES:
            numbers = (f"{figure[name]:,.1f}" for name in ("median", "p99", "highest"))
            table.add_row(figure["discipline"], figure["contender"], *numbers)
    return table


def _aims(store: dict[str, Any]) -> Table:
    table = Table("what", "measured", "aim", "", title=f"{store['server']}: aims")
    for ratio in store["ratios"]:
        measured = f"{ratio['ratio']:.2f}"
        if ratio["ratio_p99"] is not None:
            measured += f" (p99 {ratio['ratio_p99']:.2f})"
        _add(
            table, f"{ratio['discipline']}: beside {ratio['beside']}", measured, f"≥ {ratio['aim']:g}", ratio["met"]
        )
    idle = store["idle_percent_of_a_core"]
    _add(table, "idle worker", f"{idle:.2f} % of a core", f"≤ {IDLE_AIM:g} %", idle <= IDLE_AIM)
    return table


def _add(table: Table, what: str, measured: str, aim: str, met: bool) -> None:
    table.add_row(what, measured, aim, "[green]met[/]" if met else "[yellow]missed[/]")
