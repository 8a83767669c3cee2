import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.CloseableIterator;

/**
 * Flink SQL as a side of the benchmark: `FlinkNexmark EVENTS PARALLELISM`. EVENTS is a folder of texts with tabs, a file for each stream; for each line of
 * stdin, `[check] [file] STREAM,… TEXT`, it runs the query and says a line of JSON. Rows stand in memory as Flink's own, or are read from these texts; answers go
 * to a blackhole, where they are checked they are counted as they are at the end.
 */
public class FlinkNexmark {
  static final Map<String, String> COLUMNS = Map.of(
      "person", "id:l name:s emailAddress:s creditCard:s city:s state:s dateTime:t extra:s",
      "auction", "id:l itemName:s description:s initialBid:l reserve:l dateTime:t expires:t seller:l category:l extra:s",
      "bid", "auction:l bidder:l price:l channel:s url:s dateTime:t extra:s");
  static final Map<String, RowData[]> ROWS = new HashMap<>();
  static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    for (String name : COLUMNS.keySet()) ROWS.put(name, read(folder.resolve(name + ".tsv"), COLUMNS.get(name).split(" ")));
    System.gc();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      boolean checked = line.startsWith("check ");
      line = checked ? line.substring(6) : line;
      Path files = line.startsWith("file ") ? folder : null;
      String[] words = (files != null ? line.substring(5) : line).split(" ", 2);
      System.out.println(run(words[0].split(","), words[1], Integer.parseInt(arguments[1]), checked, files));
    }
  }

  static RowData[] read(Path file, String[] columns) throws Exception {
    List<RowData> rows = new ArrayList<>();
    for (String line : Files.readAllLines(file, StandardCharsets.UTF_8)) {
      String[] words = line.split("\t", -1);
      GenericRowData row = new GenericRowData(columns.length);
      for (int k = 0; k < columns.length; k++) {
        char type = columns[k].charAt(columns[k].length() - 1);
        row.setField(k, type == 's' ? StringData.fromBytes(words[k].getBytes(StandardCharsets.UTF_8))
            : type == 't' ? (Object) TimestampData.fromEpochMillis(Long.parseLong(words[k])) : (Object) Long.valueOf(words[k]));
      }
      rows.add(row);
    }
    return rows.toArray(new RowData[0]);
  }

  /** Seconds, and CPU seconds of the whole process; what it took to make machine code stands apart. */
  static String run(String[] streams, String text, int parallelism, boolean checked, Path files) throws Exception {
    StreamTableEnvironment tables = environment(streams, parallelism, files);
    long begun = System.nanoTime(), used = SYSTEM.getProcessCpuTime(), compiled = compilersTicks(), answers = 0;
    Table asked = tables.sqlQuery(text);
    if (checked) {
      answers = counted(asked);
    } else {
      List<DataType> types = asked.getResolvedSchema().getColumnDataTypes();
      Schema.Builder schema = Schema.newBuilder();
      for (int k = 0; k < types.size(); k++) schema.column("c" + k, types.get(k));
      asked.insertInto(TableDescriptor.forConnector("blackhole").schema(schema.build()).build()).execute().await();
    }
    double seconds = (System.nanoTime() - begun) / 1e9, cpu = (SYSTEM.getProcessCpuTime() - used) / 1e9;
    double compilers = (compilersTicks() - compiled) / 1e2;
    return String.format("{\"seconds\": %.4f, \"answers\": %d, \"cpu\": {\"flink\": %.4f, \"compilers\": %.2f}}", seconds, answers,
        Math.max(cpu - compilers, 0.01), compilers);
  }

  /** Hundredths of a second of the threads that make machine code, which stay. */
  static long compilersTicks() throws Exception {
    long ticks = 0;
    try (Stream<Path> threads = Files.list(Path.of("/proc/self/task"))) {
      for (Path thread : (Iterable<Path>) threads::iterator) {
        String stat;
        try {
          stat = Files.readString(thread.resolve("stat"));
        } catch (IOException gone) {
          continue;
        }
        if (!stat.contains("CompilerThre")) continue;
        String[] words = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        ticks += Long.parseLong(words[11]) + Long.parseLong(words[12]);
      }
    }
    return ticks;
  }

  static StreamTableEnvironment environment(String[] streams, int parallelism, Path files) {
    Configuration configuration = new Configuration();
    configuration.setString("pipeline.object-reuse", "true");
    configuration.setString("table.exec.mini-batch.enabled", "true");
    configuration.setString("table.exec.mini-batch.allow-latency", "2 s");
    configuration.setString("table.exec.mini-batch.size", "50000");
    configuration.setString("table.optimizer.distinct-agg.split.enabled", "true");
    configuration.setString("table.local-time-zone", "UTC");
    configuration.setString("taskmanager.numberOfTaskSlots", String.valueOf(parallelism));
    configuration.setString("taskmanager.memory.network.max", "256m");
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    environment.setParallelism(parallelism);
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    tables.createTemporarySystemFunction("count_char", CountChar.class);
    tables.createTemporarySystemFunction("side_value", SideValue.class);
    for (String stream : streams) {
      if (files == null) table(tables, environment, stream);
      else file(tables, files, stream);
    }
    return tables;
  }

  static void table(StreamTableEnvironment tables, StreamExecutionEnvironment environment, String stream) {
    String kind = stream.equals("arriving") ? "bid" : stream;
    List<DataTypes.Field> fields = new ArrayList<>();
    Schema.Builder schema = Schema.newBuilder();
    for (String column : COLUMNS.get(kind).split(" ")) {
      String name = column.split(":")[0];
      DataType type = (column.endsWith("l") ? DataTypes.BIGINT() : column.endsWith("s") ? DataTypes.STRING() : DataTypes.TIMESTAMP(3)).notNull();
      fields.add(DataTypes.FIELD(name, type));
      schema.column(name, type);
    }
    if (stream.equals("arriving")) schema.columnByExpression("rowtime", "PROCTIME()");
    else schema.watermark("dateTime", "`dateTime` - INTERVAL '4' SECOND");
    RowType type = (RowType) DataTypes.ROW(fields.toArray(new DataTypes.Field[0])).notNull().getLogicalType();
    DataStream<RowData> rows = environment.addSource(new FromMemory(kind), kind, InternalTypeInfo.of(type));
    tables.createTemporaryView(stream, rows, schema.build());
  }

  /** A stream whose rows are read as its text says; instants are milliseconds there. */
  static void file(StreamTableEnvironment tables, Path files, String stream) {
    String kind = stream.equals("arriving") ? "bid" : stream;
    Schema.Builder schema = Schema.newBuilder();
    List<String> instants = new ArrayList<>();
    for (String column : COLUMNS.get(kind).split(" ")) {
      String name = column.split(":")[0];
      boolean instant = column.endsWith("t");
      schema.column(instant ? name + "_ms" : name, (column.endsWith("s") ? DataTypes.STRING() : DataTypes.BIGINT()).notNull());
      if (instant) instants.add(name);
    }
    for (String name : instants) schema.columnByExpression(name, "CAST(TO_TIMESTAMP_LTZ(`" + name + "_ms`, 3) AS TIMESTAMP(3))");
    if (stream.equals("arriving")) schema.columnByExpression("rowtime", "PROCTIME()");
    else schema.watermark("dateTime", "`dateTime` - INTERVAL '4' SECOND");
    tables.createTemporaryTable(stream, TableDescriptor.forConnector("filesystem").schema(schema.build())
        .option("path", files.resolve(kind + ".tsv").toUri().toString()).format("csv").option("csv.field-delimiter", "\t")
        .option("csv.disable-quote-character", "true").build());
  }

  /** How many rows there are when all that was taken back is gone. */
  static long counted(Table asked) throws Exception {
    long rows = 0;
    try (CloseableIterator<Row> answers = asked.execute().collect()) {
      while (answers.hasNext()) {
        RowKind kind = answers.next().getKind();
        rows += kind == RowKind.INSERT || kind == RowKind.UPDATE_AFTER ? 1 : -1;
      }
    }
    return rows;
  }

  /** The rows of a stream, shared out in turn. */
  public static class FromMemory extends RichParallelSourceFunction<RowData> {
    final String name;
    volatile boolean running = true;

    FromMemory(String name) {
      this.name = name;
    }

    @Override
    public void run(SourceContext<RowData> context) {
      RowData[] rows = ROWS.get(name);
      int step = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
      for (int i = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(); i < rows.length && running; i += step) context.collect(rows[i]);
    }

    @Override
    public void cancel() {
      running = false;
    }
  }

  /** As the suite's. */
  public static class CountChar extends ScalarFunction {
    public long eval(String text, String character) {
      long found = 0;
      for (int i = 0; i < text.length(); i++) if (text.charAt(i) == character.charAt(0)) found++;
      return found;
    }
  }

  /** The side input of q13, in memory. */
  public static class SideValue extends ScalarFunction {
    static final String[] VALUES = new String[10_000];

    static {
      for (int i = 0; i < VALUES.length; i++) VALUES[i] = String.valueOf(i);
    }

    public String eval(long key) {
      return VALUES[(int) key];
    }
  }
}
