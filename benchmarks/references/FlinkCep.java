import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * The patterns of `pattern.c` in FlinkCEP: `FlinkCep together|apart RECORDS`. Rows are made where they are read; each run is a job, the last of three
 * counts. A microsecond there is a millisecond here, and `within` is one more, since FlinkCEP leaves its end out.
 */
public class FlinkCep {
  static final long KEYS = 10_000, KINDS = 3, VALUES = 1_000, WITHIN = 100_000;
  static long answers, sum;

  public static class Event {
    public long time, key, kind, value;
  }

  public static class OfKind extends SimpleCondition<Event> {
    final long kind;

    public OfKind(long kind) {
      this.kind = kind;
    }

    @Override
    public boolean filter(Event event) {
      return event.kind == kind;
    }
  }

  public static class Larger extends IterativeCondition<Event> {
    @Override
    public boolean filter(Event event, Context<Event> context) throws Exception {
      if (event.kind != 1) return false;
      for (Event first : context.getEventsForPattern("a")) return event.value > 2 * first.value;
      return false;
    }
  }

  public static class Told extends PatternProcessFunction<Event, Long> {
    final String last;

    public Told(String last) {
      this.last = last;
    }

    @Override
    public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
      long total = match.get("a").get(0).value + match.get(last).get(0).value;
      answers++;
      sum += total;
      out.collect(total);
    }
  }

  static long drawn(long x) {
    x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
    x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
    return x ^ (x >>> 31);
  }

  static Event row(long i) {
    Event event = new Event();
    event.time = i;
    event.key = Long.remainderUnsigned(drawn(3 * i), KEYS);
    event.kind = Long.remainderUnsigned(drawn(3 * i + 1), KINDS);
    event.value = Long.remainderUnsigned(drawn(3 * i + 2), VALUES);
    return event;
  }

  static Pattern<Event, ?> pattern(boolean together) {
    AfterMatchSkipStrategy skip = together ? AfterMatchSkipStrategy.skipPastLastEvent() : AfterMatchSkipStrategy.noSkip();
    Pattern<Event, ?> first = Pattern.<Event>begin("a", skip).where(new OfKind(0));
    Duration within = Duration.ofMillis(WITHIN + 1);
    if (!together) return first.followedBy("b").where((IterativeCondition) new Larger()).within(within);
    return first.followedBy("b").where((IterativeCondition) new OfKind(1)).followedBy("c").where(new OfKind(2)).within(within);
  }

  static double run(boolean together, long records) throws Exception {
    Configuration configuration = new Configuration();
    configuration.setString("pipeline.object-reuse", "true");
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    environment.setParallelism(1);
    WatermarkStrategy<Event> inOrder = WatermarkStrategy.<Event>forMonotonousTimestamps().withTimestampAssigner((event, at) -> event.time);
    DataStream<Event> rows = environment.fromSequence(0, records - 1).map(FlinkCep::row).returns(Event.class).assignTimestampsAndWatermarks(inOrder);
    CEP.pattern(rows.keyBy(event -> event.key), (Pattern<Event, Event>) pattern(together)).process(new Told(together ? "c" : "b")).sinkTo(new DiscardingSink<>());
    OperatingSystemMXBean machine = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    answers = sum = 0;
    long before = machine.getProcessCpuTime();
    environment.execute();
    return (machine.getProcessCpuTime() - before) / 1e9;
  }

  public static void main(String[] arguments) throws Exception {
    boolean together = arguments[0].equals("together");
    long records = Long.parseLong(arguments[1]);
    double used = 0;
    for (int turn = 0; turn < 3; turn++) used = run(together, records);
    String line = "{\"records\": %d, \"answers\": %d, \"sum\": %d, \"cpu_s\": %.3f, \"records_per_cpu_s\": %.1f}%n";
    System.out.printf(line, records, answers, sum, used, records / used);
  }
}
