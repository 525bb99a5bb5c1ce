package example.ledger;

import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Spark makes one while its first session starts, and never later. */
public class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  static volatile boolean applied = false;

  public BoxedUnit apply(SparkSessionExtensions extensions) {
    applied = true;
    return BoxedUnit.UNIT;
  }
}
