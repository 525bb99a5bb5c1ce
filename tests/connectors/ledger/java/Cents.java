package example.ledger;

import java.math.BigDecimal;
import org.apache.spark.sql.api.java.UDF1;

/** An amount such as 12.50 in cents, null for what is none; it needs the extensions of this jar. */
public class Cents implements UDF1<String, Long> {
  public Long call(String amount) {
    if (!Extensions.applied) {
      throw new IllegalStateException("the extensions were not applied");
    }
    try {
      return new BigDecimal(amount).movePointRight(2).longValueExact();
    } catch (ArithmeticException | NullPointerException | NumberFormatException error) {
      return null;
    }
  }
}
