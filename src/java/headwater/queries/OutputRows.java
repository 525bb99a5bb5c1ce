package headwater.queries;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Knows how many rows each batch of a streaming query passed to its sink, from the metrics of Spark's own operators.
 *
 * <p>Spark calls this after each batch with its plan, on a thread of its own. The topmost operator that counts its rows
 * has the number: the operators above it keep every row. A union has the rows of all its children.
 */
public final class OutputRows extends SparkListener {
  private static final int KEPT = 1000;
  private static final String METRIC = "numOutputRows";
  private static final String UNION = "UnionExec";
  private static final Set<String> KEEP_ROWS =
      new HashSet<String>(
          Arrays.asList(
              new String[] {
                "WholeStageCodegenExec",
                "InputAdapter",
                "ProjectExec",
                "EventTimeWatermarkExec",
                "CollectMetricsExec",
                // They call Python functions of a projection.
                "BatchEvalPythonExec",
                "ArrowEvalPythonExec"
              }));

  private final Map<String, Long> found = new HashMap<String, Long>();
  private final ArrayDeque<String> order = new ArrayDeque<String>();

  /** Whether the number of the last batch that was asked for did not arrive. */
  private boolean missed;

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof SparkListenerSQLExecutionEnd)) {
      return;
    }
    SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
    QueryExecution execution = end.qe();
    // Its package differs between versions of Spark.
    if (execution == null || !execution.getClass().getSimpleName().equals("IncrementalExecution")) {
      return;
    }
    // A batch that failed may have no plan, and asking for one would plan it again.
    if (end.executionFailure().isDefined()) {
      return;
    }
    String key;
    try {
      Object run = execution.getClass().getMethod("runId", new Class[0]).invoke(execution, new Object[0]);
      Object batch = execution.getClass().getMethod("currentBatchId", new Class[0]).invoke(execution, new Object[0]);
      key = run + " " + batch;
    } catch (ReflectiveOperationException missing) {
      // This Spark has no such methods: no number is ever known, so nobody should wait for one.
      miss();
      return;
    }
    long rows = -1;
    try {
      rows = rowsOf(execution.executedPlan());
    } finally {
      // Also after an error, which Spark logs: the number is then unknown, and known to be so.
      add(key, rows);
    }
  }

  /**
   * The number of rows of a batch, or -1 if it is not known after this time.
   *
   * <p>After a batch whose number did not arrive, this waits for no other one until Spark reports a number again: the
   * thread that waits delivers the events of all queries.
   */
  public synchronized long of(String run, long batch, long millis) throws InterruptedException {
    String key = run + " " + batch;
    long deadline = System.currentTimeMillis() + millis;
    long left = millis;
    while (!found.containsKey(key) && left > 0 && !missed) {
      wait(left);
      left = deadline - System.currentTimeMillis();
    }
    if (found.containsKey(key)) {
      return ((Long) found.get(key)).longValue();
    }
    missed = missed || millis > 0;
    return -1;
  }

  synchronized void miss() {
    missed = true;
    notifyAll();
  }

  synchronized void add(String key, long rows) {
    missed = false;
    if (found.put(key, Long.valueOf(rows)) == null) {
      order.add(key);
    }
    if (order.size() > KEPT) {
      found.remove(order.remove());
    }
    notifyAll();
  }

  static long rowsOf(SparkPlan plan) {
    Option metric = plan.metrics().get(METRIC);
    if (metric.isDefined()) {
      return ((Long) ((AccumulatorV2) metric.get()).value()).longValue();
    }
    String name = plan.getClass().getSimpleName();
    if (name.equals(UNION)) {
      return sum(plan.children());
    }
    return KEEP_ROWS.contains(name) ? rowsOf((SparkPlan) plan.children().apply(0)) : -1;
  }

  private static long sum(Seq plans) {
    long all = 0;
    for (int each = 0; each < plans.size(); each++) {
      long rows = rowsOf((SparkPlan) plans.apply(each));
      if (rows < 0) {
        return -1;
      }
      all += rows;
    }
    return all;
  }
}
