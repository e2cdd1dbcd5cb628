// Everything that a preloaded object must not have, for the negative controls of the checks on the object.

#include <cmath>

extern "C" void from_the_future();
extern "C" void from_the_inside();

template <class T> struct Holder {
    static T& value() {
        static T one{}; // with -fgnu-unique a symbol that the whole process shares
        return one;
    }
};

struct PlantedInitialiser {
    PlantedInitialiser() noexcept { from_the_future(); }
};
PlantedInitialiser planted_initialiser;

extern "C" double planted_export(double x) {
    from_the_inside();
    return std::sin(x) + Holder<double>::value();
}
template struct Holder<double>;
