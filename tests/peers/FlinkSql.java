import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Flink SQL over cases from stdin: `rows N`, N lines `g t i kind v` of the table `events`, then a query. `tests/peers/flink_sql.py` writes and reads. */
public class FlinkSql {
  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      List<Row> rows = new ArrayList<>();
      for (int n = Integer.parseInt(line.split(" ")[1]); n > 0; n--) {
        String[] words = in.readLine().split(" ");
        rows.add(Row.of(number(words[0]), Instant.ofEpochMilli(number(words[1])), number(words[2]), number(words[3]), number(words[4])));
      }
      StringBuilder found = new StringBuilder();
      try {
        answer(in.readLine(), rows, found);
      } catch (Exception error) {
        Throwable cause = error;
        while (cause.getCause() != null) cause = cause.getCause();
        found.append("error ").append(String.valueOf(cause).replace('\n', ' ')).append('\n');
      }
      System.out.print(found.append("end\n"));
      System.out.flush();
    }
  }

  static int number(String word) {
    return Integer.parseInt(word);
  }

  static void answer(String text, List<Row> rows, StringBuilder found) throws Exception {
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
    environment.setParallelism(1);
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    String[] names = {"g", "t", "i", "kind", "v"};
    DataStream<Row> stream = environment.fromData(rows, Types.ROW_NAMED(names, Types.INT, Types.INSTANT, Types.INT, Types.INT, Types.INT));
    tables.createTemporaryView("events", stream,
        Schema.newBuilder().column("g", DataTypes.INT()).column("t", DataTypes.TIMESTAMP_LTZ(3)).column("i", DataTypes.INT())
            .column("kind", DataTypes.INT()).column("v", DataTypes.INT()).watermark("t", "t").build());
    try (CloseableIterator<Row> answers = tables.sqlQuery(text).execute().collect()) {
      while (answers.hasNext()) {
        Row row = answers.next();
        found.append("match");
        for (int k = 0; k < row.getArity(); k++) found.append(' ').append(row.getField(k));
        found.append('\n');
      }
    }
  }
}
