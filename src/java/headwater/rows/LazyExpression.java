package headwater.rows;

import java.io.Serializable;
import org.apache.commons.lang3.SerializationUtils;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * A function of a struct, which evaluates an expression of Spark over its fields.
 *
 * <p>Spark analyzes, optimizes and compiles each expression of a plan again for each batch, also one that hardly any
 * row needs. A plan with this function contains only the call.
 */
public final class LazyExpression implements UDF1 {
  /** Each task receives the function, and only few tasks call it. */
  private final byte[] serialized;

  private transient Expression expression;

  /** The columns of the expression are bound to the fields of the struct. */
  public LazyExpression(Expression expression) {
    this.serialized = SerializationUtils.serialize((Serializable) expression);
  }

  @Override
  public synchronized Object call(Object struct) {
    if (expression == null) {
      expression = (Expression) SerializationUtils.deserialize(serialized);
    }
    Object row = CatalystTypeConverters.convertToCatalyst(struct);
    return CatalystTypeConverters.convertToScala(expression.eval((InternalRow) row), expression.dataType());
  }
}
