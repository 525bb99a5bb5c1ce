"""Run a Headwater pipeline every 15 minutes with Airflow 3."""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="orders",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
):
    BashOperator(
        task_id="run",
        cwd="/opt/orders",
        bash_command="/opt/orders/.venv/bin/headwater run pipeline.yml",
        # The previous run is still active.
        skip_on_exit_code=4,
    )
