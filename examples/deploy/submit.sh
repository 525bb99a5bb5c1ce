#!/bin/sh
# Run a pipeline with the spark-submit and the configuration of an existing Spark installation.
set -eu

cd /opt/orders
export PYSPARK_PYTHON=/opt/orders/.venv/bin/python

exec "$SPARK_HOME/bin/spark-submit" \
    --master spark://spark-master:7077 \
    --conf spark.cores.max=8 \
    headwater_main.py run pipeline.yml --fail-fast
