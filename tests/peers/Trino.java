import static io.trino.testing.TestingSession.testSessionBuilder;

import io.trino.testing.LocalQueryRunner;
import io.trino.testing.MaterializedRow;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;

/** Trino over cases from stdin: `rows N`, N lines `g t i kind v` of the table `events`, then a query. `tests/peers/trino.py` writes and reads. */
public class Trino {
  /** One literal: of a VALUES Trino plans each number. */
  static final String EVENTS =
      "WITH events AS (SELECT * FROM UNNEST(CAST(JSON '[%s]' AS ARRAY(ROW(g BIGINT, t BIGINT, i BIGINT, kind BIGINT, v BIGINT))))) ";

  public static void main(String[] arguments) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err); // a library of its warns there
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    try (LocalQueryRunner runner = LocalQueryRunner.create(testSessionBuilder().build())) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        StringBuilder rows = new StringBuilder();
        for (int n = Integer.parseInt(line.split(" ")[1]); n > 0; n--) {
          rows.append(rows.isEmpty() ? "[" : ",[").append(in.readLine().replace(' ', ',').replace("None", "null")).append(']');
        }
        StringBuilder found = new StringBuilder();
        try {
          for (MaterializedRow row : runner.execute(EVENTS.formatted(rows) + in.readLine()).getMaterializedRows()) {
            found.append("match");
            for (Object value : row.getFields()) found.append(' ').append(value);
            found.append('\n');
          }
        } catch (RuntimeException error) {
          found.setLength(0);
          found.append("error ").append(String.valueOf(error).replace('\n', ' ')).append('\n');
        }
        out.print(found.append("end\n"));
        out.flush();
      }
    }
  }
}
