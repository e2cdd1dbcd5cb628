#pragma once
// What every GPU program prints: one JSON line with the fields that must be equal natively and preloaded ("result") and
// those that may differ from run to run ("volatile": times, free memory, how often memory was recycled).

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>

namespace cistern::gpu_test {

class Report {
public:
    void result(const std::string& key, long long value) { add(result_, key, std::to_string(value)); }
    void result(const std::string& key, const std::string& text) { add(result_, key, quoted(text)); }
    void result(const std::string& key, std::initializer_list<long long> values) {
        std::string list = "[";
        for (long long v : values) list += (list.size() > 1 ? "," : "") + std::to_string(v);
        add(result_, key, list + "]");
    }
    void varying(const std::string& key, double value) {
        char text[40];
        snprintf(text, sizeof text, "%.9g", value);
        add(varying_, key, text);
    }
    void varying(const std::string& key, const std::string& text) { add(varying_, key, quoted(text)); }
    /// Marks the run as failed whatever the comparison says; the first reason is kept.
    void fail(const std::string& why) {
        if (why_.empty()) why_ = why;
    }
    bool failed() const { return !why_.empty(); }
    /// Prints the line; returns the exit code.
    int print() const {
        printf("{\"ok\":%s,\"why\":%s,\"result\":{%s},\"volatile\":{%s}}\n", failed() ? "false" : "true",
               quoted(why_).c_str(), result_.c_str(), varying_.c_str());
        fflush(stdout);
        return failed() ? 1 : 0;
    }

private:
    static std::string quoted(const std::string& text) {
        std::string out = "\"";
        for (char c : text) {
            if (c == '"' || c == '\\') out += '\\';
            out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        return out + "\"";
    }
    static void add(std::string& to, const std::string& key, const std::string& json) {
        if (!to.empty()) to += ',';
        to += quoted(key) + ":" + json;
    }

    std::string result_, varying_, why_;
};

} // namespace cistern::gpu_test
