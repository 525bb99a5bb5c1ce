package headwater.rows;

import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Whether bytes are valid UTF-8 and nothing follows the JSON object that they start with.
 *
 * <p>Spark's parser stops after the first object and ignores the rest. If it accepts the object, its syntax is valid,
 * so quotes and braces are enough to find its end. False only means that this function cannot tell: the text might use
 * single quotes, which Spark's parser also accepts.
 */
public final class OneJsonObject implements UDF1 {
  private static final long ONES = 0x0101010101010101L;
  private static final long HIGH_BITS = ONES << 7;
  private static final long BRACES = ONES * '}';

  @Override
  public Object call(Object value) {
    return Boolean.valueOf(value != null && isObject((byte[]) value));
  }

  static boolean isObject(byte[] text) {
    int end = text.length;
    while (end > 0 && isSpace(text[end - 1])) {
      end--;
    }
    int start = 0;
    while (start < end && isSpace(text[start])) {
      start++;
    }
    if (start == end || text[start] != '{' || text[end - 1] != '}') {
      return false;
    }
    // Most texts are ASCII, and in those without a nested object the last brace is the only one.
    int plain = plainBytes(text, end - 1);
    if (plain == end - 1) {
      return true;
    }
    return closesAt(text, start, end - 1) && (isAscii(text, plain) || UTF8String.fromBytes(text).isValid());
  }

  /** The number of bytes before a closing brace or a byte that is not ASCII, but at most `end`. */
  private static int plainBytes(byte[] text, int end) {
    int place = 0;
    // Eight at a time: a byte of `others` is zero where there is a brace, and subtracting one sets its high bit.
    for (; place + 8 <= end; place += 8) {
      long eight = Platform.getLong(text, Platform.BYTE_ARRAY_OFFSET + place);
      long others = eight ^ BRACES;
      if ((((others - ONES) & ~others | eight) & HIGH_BITS) != 0) {
        break;
      }
    }
    while (place < end && text[place] >= 0 && text[place] != '}') {
      place++;
    }
    return place;
  }

  /** Whether the brace at `start` is closed by the one at `last`. */
  private static boolean closesAt(byte[] text, int start, int last) {
    int depth = 0;
    for (int place = start; place <= last; place++) {
      byte found = text[place];
      if (found == '"') {
        place = closingQuote(text, place, last);
      } else if (found == '{') {
        depth++;
      } else if (found == '}') {
        depth--;
        if (depth == 0) {
          return place == last;
        }
      } else if (found == '\'') {
        return false;
      }
    }
    return false;
  }

  /** The place of the quote that ends a string, or `last` if none does. */
  private static int closingQuote(byte[] text, int quote, int last) {
    int place = quote + 1;
    while (place < last && text[place] != '"') {
      place += text[place] == '\\' ? 2 : 1;
    }
    return place;
  }

  private static boolean isSpace(byte found) {
    return found == ' ' || found == '\n' || found == '\r' || found == '\t';
  }

  private static boolean isAscii(byte[] text, int start) {
    for (int place = start; place < text.length; place++) {
      if (text[place] < 0) {
        return false;
      }
    }
    return true;
  }
}
