import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.cep.configuration.SharedBufferCacheConfig;
import org.apache.flink.cep.nfa.NFA;
import org.apache.flink.cep.nfa.NFAState;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.nfa.compiler.NFACompiler;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBuffer;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferAccessor;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.configuration.Configuration;

/** FlinkCEP's automaton over cases from stdin, one key each; an event is its number. `tests/peers/flinkcep.py` writes and reads. */
public class Matches {
  static long[] times, kinds, values;
  static String[] words;
  static BufferedReader in;

  public static void main(String[] arguments) throws Exception {
    in = new BufferedReader(new InputStreamReader(System.in));
    while (read()) {
      String after = words[1], named = words[2];
      long within = Long.parseLong(words[3]);
      int parts = Integer.parseInt(words[4]);
      String[][] said = new String[parts][];
      for (int i = 0; i < parts; i++) {
        read();
        said[i] = words;
      }
      rows();
      StringBuilder found = new StringBuilder();
      try {
        Pattern<Long, ?> pattern = null;
        for (String[] part : said) pattern = joined(pattern, part, strategy(after, named));
        run(pattern.within(Duration.ofMillis(within)), strategy(after, named), found);
      } catch (Exception error) {
        found.append("error ").append(String.valueOf(error).replace('\n', ' ')).append('\n');
      }
      System.out.print(found.append("end\n"));
      System.out.flush();
    }
  }

  static boolean read() throws Exception {
    String line = in.readLine();
    if (line == null) return false;
    words = line.split(" ");
    return true;
  }

  static void rows() throws Exception {
    read();
    int n = Integer.parseInt(words[1]);
    times = new long[n];
    kinds = new long[n];
    values = new long[n];
    for (int i = 0; i < n; i++) {
      read();
      times[i] = Long.parseLong(words[0]);
      kinds[i] = Long.parseLong(words[1]);
      values[i] = Long.parseLong(words[2]);
    }
  }

  static AfterMatchSkipStrategy strategy(String after, String named) {
    switch (after) {
      case "all": return AfterMatchSkipStrategy.noSkip();
      case "to_next": return AfterMatchSkipStrategy.skipToNext();
      case "past_last": return AfterMatchSkipStrategy.skipPastLastEvent();
      case "to_first": return AfterMatchSkipStrategy.skipToFirst(named);
      case "to_last": return AfterMatchSkipStrategy.skipToLast(named);
    }
    throw new IllegalArgumentException(after);
  }

  /** part NAME EDGE KIND THAN TIMES INNER OPTIONAL NEVER NEVER_EDGE */
  @SuppressWarnings("unchecked")
  static Pattern<Long, ?> joined(Pattern<Long, ?> before, String[] words, AfterMatchSkipStrategy strategy) {
    String name = words[1], edge = words[2], than = words[4], inner = words[6];
    int times = Integer.parseInt(words[5]);
    Pattern<Long, Long> made;
    if (before == null) made = Pattern.<Long>begin(name, strategy);
    else {
      Pattern<Long, Long> left = (Pattern<Long, Long>) before;
      long never = Long.parseLong(words[8]);
      if (never >= 0) {
        Pattern<Long, Long> not = words[9].equals("next") ? left.notNext("not" + name) : left.notFollowedBy("not" + name);
        left = not.where(new Told(never, "-"));
      }
      made = edge.equals("next") ? left.next(name) : edge.equals("then") ? left.followedBy(name) : left.followedByAny(name);
    }
    made = made.where(new Told(Long.parseLong(words[3]), than));
    if (times > 1) {
      made = made.times(times);
      if (inner.equals("next")) made = made.consecutive();
      if (inner.equals("any")) made = made.allowCombinations();
    }
    return words[7].equals("1") ? made.optional() : made;
  }

  /** Of a kind, and of a greater value than the row of a variable before. */
  static class Told extends IterativeCondition<Long> {
    final long kind;
    final String than;

    Told(long kind, String than) {
      this.kind = kind;
      this.than = than;
    }

    @Override
    public boolean filter(Long row, Context<Long> context) throws Exception {
      if (kinds[row.intValue()] != kind) return false;
      if (than.equals("-")) return true;
      for (Long other : context.getEventsForPattern(than)) return values[row.intValue()] > values[other.intValue()];
      return false;
    }
  }

  static void run(Pattern<Long, ?> pattern, AfterMatchSkipStrategy strategy, StringBuilder found) throws Exception {
    NFA<Long> automaton = NFACompiler.compileFactory(pattern, false).createNFA();
    automaton.open((RuntimeContext) Proxy.newProxyInstance(Matches.class.getClassLoader(), new Class<?>[] {RuntimeContext.class},
        (proxy, method, arguments) -> null), new Configuration());
    SharedBuffer<Long> buffer = new SharedBuffer<>(store(), LongSerializer.INSTANCE, new SharedBufferCacheConfig(1024, 1024, Duration.ofDays(1)));
    NFAState state = automaton.createInitialNFAState();
    for (int i = 0; i < times.length; i++) {
      try (SharedBufferAccessor<Long> access = buffer.getAccessor()) {
        tell(automaton.advanceTime(access, state, times[i], strategy).f0, found);
        tell(automaton.process(access, state, (long) i, times[i], strategy, System::currentTimeMillis), found);
      }
    }
    buffer.releaseCacheStatisticsTimer();
  }

  static void tell(Collection<Map<String, List<Long>>> matches, StringBuilder found) {
    for (Map<String, List<Long>> match : matches) {
      found.append("match");
      match.forEach((name, rows) ->
          found.append(' ').append(name).append(':').append(rows.stream().map(String::valueOf).collect(Collectors.joining(","))));
      found.append('\n');
    }
  }

  static KeyedStateStore store() {
    return (KeyedStateStore) Proxy.newProxyInstance(Matches.class.getClassLoader(), new Class<?>[] {KeyedStateStore.class},
        (proxy, method, arguments) -> {
          if (method.getReturnType() == MapState.class) return map();
          if (method.getReturnType() == ValueState.class) return value();
          throw new UnsupportedOperationException(method.toString());
        });
  }

  static MapState<?, ?> map() {
    Map<Object, Object> kept = new HashMap<>();
    return (MapState<?, ?>) Proxy.newProxyInstance(Matches.class.getClassLoader(), new Class<?>[] {MapState.class}, (proxy, method, a) -> {
      switch (method.getName()) {
        case "get": return kept.get(a[0]);
        case "put": kept.put(a[0], a[1]); return null;
        case "putAll": kept.putAll((Map<?, ?>) a[0]); return null;
        case "remove": kept.remove(a[0]); return null;
        case "contains": return kept.containsKey(a[0]);
        case "entries": return new ArrayList<>(kept.entrySet());
        case "iterator": return new ArrayList<>(kept.entrySet()).iterator();
        case "keys": return new ArrayList<>(kept.keySet());
        case "values": return new ArrayList<>(kept.values());
        case "isEmpty": return kept.isEmpty();
        case "clear": kept.clear(); return null;
      }
      throw new UnsupportedOperationException(method.toString());
    });
  }

  static ValueState<?> value() {
    Object[] kept = new Object[1];
    return (ValueState<?>) Proxy.newProxyInstance(Matches.class.getClassLoader(), new Class<?>[] {ValueState.class}, (proxy, method, a) -> {
      switch (method.getName()) {
        case "value": return kept[0];
        case "update": kept[0] = a[0]; return null;
        case "clear": kept[0] = null; return null;
      }
      throw new UnsupportedOperationException(method.toString());
    });
  }
}
